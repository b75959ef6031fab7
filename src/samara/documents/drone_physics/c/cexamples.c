#include <stdio.h>

#include "drone_physics_c.h"

int main(void)
{
    /* The body frame by its Euler angles: turned 90 degrees to the right. dp_ is the prefix of the library. */
    dp_euler_t frame = {0, 0, M_PI / 2};
    dp_velocity_t body_velocity = {100, 200, 300};

    /* The body velocity in the ground frame. */
    dp_velocity_t g = dp_ground_vector_from_body(&body_velocity, &frame);
    printf("x=%g, y=%g, z=%g\n", g.x, g.y, g.z); /* x=-200, y=100, z=300 */

    /* And back to the body frame. */
    dp_velocity_t b = dp_body_vector_from_ground(&g, &(dp_euler_t){0, 0, M_PI / 2});
    printf("x=%g, y=%g, z=%g\n", b.x, b.y, b.z); /* x=100, y=200, z=300 */
    return 0;
}
