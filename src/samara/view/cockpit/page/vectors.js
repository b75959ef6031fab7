// Vectors { x, y, z }, quaternions { w, x, y, z } from body to world, and matrices as WebGL needs them: 16 numbers, column by column.

export const UP = { x: 0, y: 0, z: 1 };

export const vec = (x, y, z) => ({ x, y, z });
export const add = (a, b) => vec(a.x + b.x, a.y + b.y, a.z + b.z);
export const sub = (a, b) => vec(a.x - b.x, a.y - b.y, a.z - b.z);
export const scale = (a, s) => vec(a.x * s, a.y * s, a.z * s);
export const dot = (a, b) => a.x * b.x + a.y * b.y + a.z * b.z;
export const norm = (a) => Math.hypot(a.x, a.y, a.z);
export const unit = (a) => scale(a, 1 / (norm(a) || 1));
export const mix = (a, b, t) => vec(a.x + (b.x - a.x) * t, a.y + (b.y - a.y) * t, a.z + (b.z - a.z) * t);
export const cross = (a, b) => vec(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x);

/** The body's axes in the world: x, y and z rotated by q. */
export function axes({ w, x, y, z }) {
  return [
    vec(1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)),
    vec(2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x)),
    vec(2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)),
  ];
}

/** Roll, pitch (nose up) and heading (clockwise from north)  [rad] */
export function angles(q) {
  const [forward, left, up] = axes(q);
  return {
    roll: Math.atan2(left.z, up.z),
    pitch: Math.asin(Math.max(-1, Math.min(1, forward.z))),
    heading: Math.atan2(forward.x, forward.y),
  };
}

/** The matrix that rotates to axes and translates to a position. */
export function transform([a, b, c], p) {
  return new Float32Array([a.x, a.y, a.z, 0, b.x, b.y, b.z, 0, c.x, c.y, c.z, 0, p.x, p.y, p.z, 1]);
}

export function product(a, b) {
  const out = new Float32Array(16);
  for (let column = 0; column < 4; column++)
    for (let row = 0; row < 4; row++)
      for (let k = 0; k < 4; k++) out[4 * column + row] += a[4 * k + row] * b[4 * column + k];
  return out;
}

/** The matrix from the world to the camera's axes: right, up, back. */
export function lookAt(eye, target, up) {
  const back = unit(sub(eye, target)), right = unit(cross(up, back)), above = cross(back, right);
  return new Float32Array([
    right.x, above.x, back.x, 0, right.y, above.y, back.y, 0, right.z, above.z, back.z, 0,
    -dot(right, eye), -dot(above, eye), -dot(back, eye), 1,
  ]);
}

export function perspective(fieldOfView, aspect, near, far) {
  const f = 1 / Math.tan(fieldOfView / 2);
  return new Float32Array([
    f / aspect, 0, 0, 0, 0, f, 0, 0, 0, 0, (far + near) / (near - far), -1, 0, 0, (2 * far * near) / (near - far), 0,
  ]);
}

export function orthographic(size, depth) {
  return new Float32Array([1 / size, 0, 0, 0, 0, 1 / size, 0, 0, 0, 0, -1 / depth, 0, 0, 0, 0, 1]);
}
