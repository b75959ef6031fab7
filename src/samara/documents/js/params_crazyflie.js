/**
 * The Crazyflie's numbers, SI units. dragLinear acts along the world's axes; dragAngular are the rates k of
 * omega(t) = omega(0) exp(-k t) about the body's axes; omegaMin is the speed at command 0.
 *
 *     new DronePhysicsEngine({ mass: 0.032 })
 */
