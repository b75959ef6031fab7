// Triangles with normals and colours, nine numbers per vertex; all parts of a vehicle except propellers are one list.

import { add, cross, scale, sub, unit, vec } from "./vectors.js";

const SEGMENTS = 20;
const ROUNDNESS = 0.35; // exponent of a superellipsoid: 1 is a ball, 0 a box

export const rgb = (hex) => [1, 3, 5].map((i) => (parseInt(hex.slice(i, i + 2), 16) / 255) ** 2.2);

/** The vertices of a vehicle's parts, from its appearance. */
export function vehicleTriangles(appearance) {
  const out = [];
  for (const part of appearance.parts) {
    const colour = rgb(part.colour);
    if (part.type === "Rod") rod(out, point(part.start_B), point(part.end_B), part.radius, colour);
    if (part.type === "Box") body(out, point(part.centre_B), part.size_B, colour);
  }
  return new Float32Array(out);
}

const point = ([x, y, z]) => vec(x, y, z);

function addVertex(out, p, n, colour) {
  out.push(p.x, p.y, p.z, n.x, n.y, n.z, ...colour);
}

/** A cylinder. */
function rod(out, start, end, radius, colour) {
  const axis = unit(sub(end, start));
  const side = unit(cross(axis, Math.abs(axis.z) < 0.9 ? vec(0, 0, 1) : vec(1, 0, 0))), otherSide = cross(axis, side);
  const radial = (k) => add(scale(side, Math.cos((2 * Math.PI * k) / SEGMENTS)), scale(otherSide, Math.sin((2 * Math.PI * k) / SEGMENTS)));
  for (let k = 0; k < SEGMENTS; k++) {
    const a = radial(k), b = radial(k + 1);
    const [a0, b0, a1, b1] = [[start, a], [start, b], [end, a], [end, b]].map(([p, n]) => add(p, scale(n, radius)));
    for (const [p, n] of [[a0, a], [b0, b], [b1, b], [a0, a], [b1, b], [a1, a]]) addVertex(out, p, n, colour);
    for (const p of [end, a1, b1]) addVertex(out, p, axis, colour);
    for (const p of [start, b0, a0]) addVertex(out, p, scale(axis, -1), colour);
  }
}

/** A box with rounded edges. */
function body(out, centre, size, colour) {
  const power = (value, exponent) => Math.sign(value) * Math.abs(value) ** exponent;
  const rows = 12, columns = 28;
  const vertexAt = (i, k) => {
    const latitude = Math.PI * (i / rows - 0.5), longitude = (2 * Math.PI * k) / columns;
    const [c, s] = [Math.cos(latitude), Math.sin(latitude)], [cl, sl] = [Math.cos(longitude), Math.sin(longitude)];
    const p = vec(power(c, ROUNDNESS) * power(cl, ROUNDNESS), power(c, ROUNDNESS) * power(sl, ROUNDNESS), power(s, ROUNDNESS));
    const n = vec(power(c, 2 - ROUNDNESS) * power(cl, 2 - ROUNDNESS) / size[0],
      power(c, 2 - ROUNDNESS) * power(sl, 2 - ROUNDNESS) / size[1], power(s, 2 - ROUNDNESS) / size[2]);
    return [add(centre, vec((p.x * size[0]) / 2, (p.y * size[1]) / 2, (p.z * size[2]) / 2)), unit(n)];
  };
  for (let i = 0; i < rows; i++)
    for (let k = 0; k < columns; k++)
      for (const [p, n] of [vertexAt(i, k), vertexAt(i, k + 1), vertexAt(i + 1, k + 1), vertexAt(i, k), vertexAt(i + 1, k + 1), vertexAt(i + 1, k)])
        addVertex(out, p, n, colour);
}

/** A torus about an axis. */
export function torus(centre, axis, radius, tubeRadius, colour) {
  const out = [], side = unit(cross(vec(0, 0, 1), axis)), up = cross(axis, side), rows = 48, columns = 10;
  const vertexAt = (i, k) => {
    const a = (2 * Math.PI * i) / rows, b = (2 * Math.PI * k) / columns;
    const radial = add(scale(side, Math.cos(a)), scale(up, Math.sin(a)));
    const n = add(scale(radial, Math.cos(b)), scale(axis, Math.sin(b)));
    return [add(centre, add(scale(radial, radius), scale(n, tubeRadius))), n];
  };
  for (let i = 0; i < rows; i++)
    for (let k = 0; k < columns; k++)
      for (const [p, n] of [vertexAt(i, k), vertexAt(i + 1, k), vertexAt(i + 1, k + 1), vertexAt(i, k), vertexAt(i + 1, k + 1), vertexAt(i, k + 1)])
        addVertex(out, p, n, colour);
  return out;
}

/** The matrix of each rotor that maps the unit disc in the xy plane to its propeller, in body axes. */
export function discMatrices(appearance) {
  return appearance.rotors.map(({ disc }) => {
    const { centre_B, axis_B, radius } = appearance.parts[disc];
    const z = point(axis_B), x = unit(cross(Math.abs(z.y) < 0.9 ? vec(0, 1, 0) : vec(1, 0, 0), z)), y = cross(z, x);
    const c = point(centre_B);
    return new Float32Array([
      x.x * radius, x.y * radius, x.z * radius, 0, y.x * radius, y.y * radius, y.z * radius, 0, z.x, z.y, z.z, 0,
      c.x, c.y, c.z, 1,
    ]);
  });
}
