// Triangles with normals and colours, nine numbers a corner; all of a craft that does not turn is one list.

import { add, cross, scale, sub, unit, vec } from "./vectors.js";

const AROUND = 20;
const ROUND = 0.35; // exponent of a superellipsoid: 1 is a ball, 0 a box

export const rgb = (hex) => [1, 3, 5].map((i) => (parseInt(hex.slice(i, i + 2), 16) / 255) ** 2.2);

/** The corners of a craft's parts, as its looks name them. */
export function craftTriangles(looks) {
  const out = [];
  for (const part of looks.parts) {
    const colour = rgb(part.colour);
    if (part.kind === "Rod") rod(out, point(part.start_B), point(part.end_B), part.radius, colour);
    if (part.kind === "Box") body(out, point(part.centre_B), part.size_B, colour);
  }
  return new Float32Array(out);
}

const point = ([x, y, z]) => vec(x, y, z);

function corner(out, p, n, colour) {
  out.push(p.x, p.y, p.z, n.x, n.y, n.z, ...colour);
}

/** A round bar with flat ends. */
function rod(out, start, end, radius, colour) {
  const along = unit(sub(end, start));
  const aside = unit(cross(along, Math.abs(along.z) < 0.9 ? vec(0, 0, 1) : vec(1, 0, 0))), other = cross(along, aside);
  const around = (k) => add(scale(aside, Math.cos((2 * Math.PI * k) / AROUND)), scale(other, Math.sin((2 * Math.PI * k) / AROUND)));
  for (let k = 0; k < AROUND; k++) {
    const a = around(k), b = around(k + 1);
    const [a0, b0, a1, b1] = [[start, a], [start, b], [end, a], [end, b]].map(([p, n]) => add(p, scale(n, radius)));
    for (const [p, n] of [[a0, a], [b0, b], [b1, b], [a0, a], [b1, b], [a1, a]]) corner(out, p, n, colour);
    for (const p of [end, a1, b1]) corner(out, p, along, colour);
    for (const p of [start, b0, a0]) corner(out, p, scale(along, -1), colour);
  }
}

/** A box with round edges. */
function body(out, centre, size, colour) {
  const power = (value, exponent) => Math.sign(value) * Math.abs(value) ** exponent;
  const rows = 12, columns = 28;
  const at = (i, k) => {
    const latitude = Math.PI * (i / rows - 0.5), longitude = (2 * Math.PI * k) / columns;
    const [c, s] = [Math.cos(latitude), Math.sin(latitude)], [cl, sl] = [Math.cos(longitude), Math.sin(longitude)];
    const p = vec(power(c, ROUND) * power(cl, ROUND), power(c, ROUND) * power(sl, ROUND), power(s, ROUND));
    const n = vec(power(c, 2 - ROUND) * power(cl, 2 - ROUND) / size[0],
      power(c, 2 - ROUND) * power(sl, 2 - ROUND) / size[1], power(s, 2 - ROUND) / size[2]);
    return [add(centre, vec((p.x * size[0]) / 2, (p.y * size[1]) / 2, (p.z * size[2]) / 2)), unit(n)];
  };
  for (let i = 0; i < rows; i++)
    for (let k = 0; k < columns; k++)
      for (const [p, n] of [at(i, k), at(i, k + 1), at(i + 1, k + 1), at(i, k), at(i + 1, k + 1), at(i + 1, k)])
        corner(out, p, n, colour);
}

/** A ring about a direction. */
export function torus(centre, through, radius, tube, colour) {
  const out = [], aside = unit(cross(vec(0, 0, 1), through)), up = cross(through, aside), rows = 48, columns = 10;
  const at = (i, k) => {
    const a = (2 * Math.PI * i) / rows, b = (2 * Math.PI * k) / columns;
    const away = add(scale(aside, Math.cos(a)), scale(up, Math.sin(a)));
    const n = add(scale(away, Math.cos(b)), scale(through, Math.sin(b)));
    return [add(centre, add(scale(away, radius), scale(n, tube))), n];
  };
  for (let i = 0; i < rows; i++)
    for (let k = 0; k < columns; k++)
      for (const [p, n] of [at(i, k), at(i + 1, k), at(i + 1, k + 1), at(i, k), at(i + 1, k + 1), at(i, k + 1)])
        corner(out, p, n, colour);
  return out;
}

/** For each rotor the matrix that lays a disc of radius 1 in the xy plane where its propeller is, in the body. */
export function discs(looks) {
  return looks.rotors.map(({ disc }) => {
    const { centre_B, axis_B, radius } = looks.parts[disc];
    const z = point(axis_B), x = unit(cross(Math.abs(z.y) < 0.9 ? vec(0, 1, 0) : vec(1, 0, 0), z)), y = cross(z, x);
    const c = point(centre_B);
    return new Float32Array([
      x.x * radius, x.y * radius, x.z * radius, 0, y.x * radius, y.y * radius, y.z * radius, 0, z.x, z.y, z.z, 0,
      c.x, c.y, c.z, 1,
    ]);
  });
}
