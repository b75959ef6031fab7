#include <iostream>

#include "drone_physics.hpp"

int main() {
    using namespace hako::drone_physics;

    // The body frame by its Euler angles: turned 90 degrees to the right.
    EulerType frame = {0, 0, M_PI / 2};
    VelocityType body_velocity = {100, 200, 300};

    // The body velocity in the ground frame.
    VelocityType ground_velocity = ground_vector_from_body(body_velocity, frame);
    auto [u, v, w] = ground_velocity;
    std::cout << "u = " << u << ", v = " << v << ", w = " << w << std::endl;  // u = -200, v = 100, w = 300

    // And back to the body frame.
    VelocityType body_velocity2 = body_vector_from_ground({u, v, w}, {0, 0, M_PI / 2});
    auto [u2, v2, w2] = body_velocity2;
    std::cout << "u2 = " << u2 << ", v2 = " << v2 << ", w2 = " << w2 << std::endl;  // u2 = 100, v2 = 200, w2 = 300
}
