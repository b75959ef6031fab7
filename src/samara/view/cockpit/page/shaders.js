// Shaders. Light is linear until the last line of each shader; the sun is fixed.

export const SUN = [-0.55, -0.42, 0.72]; // direction, in the world

const HEAD = `#version 300 es
precision highp float;
const vec3 SUN = normalize(vec3(${SUN.join(", ")}));
const vec3 HORIZON = vec3(0.80, 0.86, 0.90), ZENITH = vec3(0.16, 0.36, 0.66), GLOW = vec3(1.0, 0.92, 0.78), HAZE = vec3(0.52, 0.61, 0.63);
vec3 sky(vec3 ray) {
  float up = max(ray.z, 0.0);
  vec3 colour = mix(HORIZON, ZENITH, 1.0 - exp(-2.6 * up));
  float near = max(dot(ray, SUN), 0.0);
  return colour + GLOW * (0.10 * pow(near, 6.0) + 0.35 * pow(near, 60.0) + 4.0 * smoothstep(0.99945, 0.9997, near));
}
vec4 toneMapped(vec3 light, float alpha) { return vec4(pow(light / (1.0 + 0.12 * light), vec3(1.0 / 2.2)), alpha); }
`;

const SHADOW = `
uniform highp sampler2DShadow shadows;
uniform mat4 toLight;
float lit(vec3 p, float spread) {
  vec3 at = (toLight * vec4(p, 1.0)).xyz * 0.5 + 0.5;
  if (any(lessThan(at.xy, vec2(0.01))) || any(greaterThan(at.xy, vec2(0.99)))) return 1.0;
  float sum = 0.0;
  for (int i = 0; i < 16; i++) {
    float angle = 2.4 * float(i), away = sqrt((float(i) + 0.5) / 16.0) * spread;
    sum += texture(shadows, vec3(at.xy + away * vec2(cos(angle), sin(angle)), at.z - 0.0015));
  }
  return sum / 16.0;
}
`;

export const SKY = [
  `${HEAD}
out vec2 at;
void main() { at = vec2(gl_VertexID == 1 ? 3.0 : -1.0, gl_VertexID == 2 ? 3.0 : -1.0); gl_Position = vec4(at, 1.0, 1.0); }`,
  `${HEAD}
in vec2 at;
uniform vec3 right, above, ahead;
out vec4 colour;
float hash(float at) { return fract(sin(at * 91.345) * 47453.5453); }
float wave(float turn, float count, float seed) {
  float at = turn * count, cell = floor(at);
  return mix(hash(mod(cell, count) + seed), hash(mod(cell + 1.0, count) + seed), smoothstep(0.0, 1.0, at - cell));
}
float ridge(float turn, float seed) {
  return 0.6 * wave(turn, 24.0, seed) + 0.3 * wave(turn, 55.0, seed + 0.3) + 0.1 * wave(turn, 170.0, seed + 0.6);
}
void main() {
  vec3 ray = normalize(ahead + at.x * right + at.y * above), light = sky(ray);
  float turn = atan(ray.x, ray.y) / 6.2831853 + 0.5, sharp = 1.5 * fwidth(ray.z);
  float far = 0.012 + 0.050 * ridge(turn, 3.0), near = 0.004 + 0.026 * ridge(turn, 61.0);
  light = mix(light, vec3(0.50, 0.61, 0.70), smoothstep(sharp, -sharp, ray.z - far));
  light = mix(light, mix(HAZE, vec3(0.40, 0.50, 0.50), clamp(60.0 * ray.z, 0.0, 1.0)), smoothstep(sharp, -sharp, ray.z - near));
  colour = toneMapped(light, 1.0);
}`,
];

export const GROUND = [
  `${HEAD}
uniform mat4 toScreen;
uniform vec3 eye;
out vec3 p;
void main() {
  vec2 side = vec2(gl_VertexID % 2 == 0 ? -1.0 : 1.0, gl_VertexID < 2 ? -1.0 : 1.0);
  p = vec3(eye.xy + 900.0 * side, 0.0);
  gl_Position = toScreen * vec4(p, 1.0);
}`,
  `${HEAD}${SHADOW}
in vec3 p;
uniform vec3 eye;
uniform float spread, fine;
out vec4 colour;
float lines(vec2 at, float width) {
  vec2 wide = max(fwidth(at), 1e-6), near = abs(fract(at - 0.5) - 0.5);
  vec2 line = 1.0 - smoothstep(vec2(width), vec2(width) + 1.5 * wide, near);
  vec2 fade = clamp(1.2 - 7.0 * wide, 0.0, 1.0);
  return max(line.x * fade.x, line.y * fade.y);
}
float ring(float r, float radius, float width) {
  return 1.0 - smoothstep(width, width + 1.5 * fwidth(r), abs(r - radius));
}
float hash(vec2 at) { return fract(sin(dot(at, vec2(12.9898, 78.233))) * 43758.5453); }
float noise(vec2 at) {
  vec2 cell = floor(at), f = smoothstep(0.0, 1.0, fract(at));
  return mix(mix(hash(cell), hash(cell + vec2(1, 0)), f.x), mix(hash(cell + vec2(0, 1)), hash(cell + vec2(1, 1)), f.x), f.y);
}
void main() {
  float r = length(p.xy), wide = max(fwidth(p.x), fwidth(p.y));
  float patch_ = 0.6 * noise(p.xy * 0.06) + 0.4 * noise(p.xy * 0.43) * clamp(1.0 - 0.3 * wide, 0.0, 1.0);
  vec3 ground = mix(vec3(0.20, 0.27, 0.15), vec3(0.31, 0.37, 0.20), patch_);
  float paint = max(0.13 * lines(p.xy, 0.006), 0.30 * lines(p.xy / 10.0, 0.0016));
  paint = max(paint, 0.06 * fine * lines(p.xy * 5.0, 0.012));
  vec3 pad = vec3(0.20, 0.22, 0.24);
  float on = 1.0 - smoothstep(1.0, 1.0 + 1.5 * fwidth(r), r);
  ground = mix(ground, pad, on);
  vec2 h = abs(p.yx);
  float bars = max(step(abs(h.x - 0.26), 0.055) * step(h.y, 0.42), step(h.x, 0.26) * step(h.y, 0.055));
  paint = max(paint * (1.0 - on), on * 0.9 * max(bars, ring(r, 0.86, 0.03)));
  paint = max(paint, 0.30 * max(max(ring(r, 10.0, 0.03), ring(r, 25.0, 0.05)), ring(r, 50.0, 0.08)));
  ground = mix(ground, vec3(0.93, 0.94, 0.92), paint);
  float light = lit(p, spread);
  vec3 lightness = vec3(0.46, 0.52, 0.62) + vec3(0.95, 0.90, 0.80) * 0.72 * light;
  float far = length(p - eye);
  float haze = 1.0 - exp(-pow(far / 240.0, 1.4));
  colour = toneMapped(mix(ground * lightness, HAZE, haze), 1.0);
}`,
];

export const SOLID = [
  `${HEAD}
layout(location = 0) in vec3 place;
layout(location = 1) in vec3 normal;
layout(location = 2) in vec3 paint;
uniform mat4 toScreen, toWorld;
out vec3 p, n, surface;
void main() {
  p = (toWorld * vec4(place, 1.0)).xyz;
  n = (toWorld * vec4(normal, 0.0)).xyz;
  surface = paint;
  gl_Position = toScreen * vec4(p, 1.0);
}`,
  `${HEAD}${SHADOW}
in vec3 p, n, surface;
uniform vec3 eye;
out vec4 colour;
void main() {
  vec3 normal = normalize(n), view = normalize(eye - p), halfway = normalize(view + SUN);
  float sun = max(dot(normal, SUN), 0.0) * lit(p + 0.004 * normal, 0.002);
  vec3 around = mix(vec3(0.34, 0.36, 0.28), vec3(0.62, 0.72, 0.86), 0.5 + 0.5 * normal.z);
  float rim = pow(1.0 - max(dot(normal, view), 0.0), 4.0);
  float shine = sun * (0.35 * pow(max(dot(normal, halfway), 0.0), 48.0));
  colour = toneMapped(surface * (around + 1.5 * GLOW * sun) + 0.10 * rim * HORIZON + shine, 1.0);
}`,
];

export const DISC = [
  `${HEAD}
uniform mat4 toScreen, toWorld;
out vec2 at;
void main() {
  at = vec2(gl_VertexID % 2 == 0 ? -1.0 : 1.0, gl_VertexID < 2 ? -1.0 : 1.0);
  gl_Position = toScreen * (toWorld * vec4(at, 0.0, 1.0));
}`,
  `${HEAD}
in vec2 at;
uniform vec3 paint;
uniform float turn, blur;
out vec4 colour;
void main() {
  float r = length(at);
  if (r > 1.0) discard;
  float angle = atan(at.y, at.x) - turn, across = abs(sin(angle)) * r;
  float width = 0.13 * (1.0 - 0.55 * r) * smoothstep(0.0, 0.12, r);
  float blade = 1.0 - smoothstep(width, width + 0.03, across);
  float smear = 0.30 + 0.55 * pow(abs(cos(angle)), 6.0);
  float edge = 1.0 - smoothstep(0.97, 1.0, r), rim = smoothstep(0.86, 0.97, r) * edge;
  float alpha = mix(0.9 * blade, 0.42 * smear + 0.45 * rim, blur) * edge;
  vec3 dark = mix(vec3(0.03, 0.04, 0.05), paint, 0.35);
  colour = toneMapped(mix(mix(dark, paint, blur), vec3(1.0), 0.15 * rim), alpha);
}`,
];

export const DEPTH = [
  `${HEAD}
layout(location = 0) in vec3 place;
uniform mat4 toScreen, toWorld;
uniform bool disc;
out vec2 at;
void main() {
  vec2 side = vec2(gl_VertexID % 2 == 0 ? -1.0 : 1.0, gl_VertexID < 2 ? -1.0 : 1.0);
  at = disc ? side : vec2(0.0);
  gl_Position = toScreen * (toWorld * vec4(disc ? vec3(side, 0.0) : place, 1.0));
}`,
  `${HEAD}
in vec2 at;
uniform bool disc;
void main() {
  if (disc && (length(at) > 1.0 || mod(floor(gl_FragCoord.x) + floor(gl_FragCoord.y), 2.0) > 0.5)) discard;
}`,
];

export const RIBBON = [
  `${HEAD}
layout(location = 0) in vec3 place;
layout(location = 1) in vec3 along;
layout(location = 2) in vec4 paint;
layout(location = 3) in float side;
uniform mat4 toScreen;
uniform vec2 size;
uniform float width;
out vec4 surface;
out float off;
void main() {
  vec4 here = toScreen * vec4(place, 1.0), there = toScreen * vec4(place + along, 1.0);
  vec2 way = (there.xy / max(there.w, 1e-4) - here.xy / max(here.w, 1e-4)) * size;
  vec2 aside = length(way) > 1e-6 ? normalize(vec2(-way.y, way.x)) : vec2(0.0, 1.0);
  here.xy += aside * side * width / size * here.w;
  surface = paint;
  off = side;
  gl_Position = here;
}`,
  `${HEAD}
in vec4 surface;
in float off;
out vec4 colour;
void main() { colour = toneMapped(surface.rgb, surface.a * (1.0 - smoothstep(0.55, 1.0, abs(off)))); }`,
];
