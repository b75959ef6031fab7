/**
 * The Crazyflie's numbers, SI units. dragLinear acts along the world's axes; dragAngular are the rates k of
 * omega(t) = omega(0) exp(-k t) about the body's axes; omegaMin is the speed at command 0.
 *
 *     new DronePhysicsEngine({ mass: 0.032 })
 *
 * PARAMS is another name of PARAMS_CRAZYFLIE. CRAZYFLIE_PARAMS has the shape that controllers written for the document's engine
 * read: motor: { omegaMin, omegaMax, tauMotor } and maxThrustPerMotor = kF omegaMax^2 [N]. An engine takes either.
 */
