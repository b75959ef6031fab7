/**
 * A vector with the methods of THREE.Vector3 that physics needs. Methods that change the vector return it. Functions of three.js
 * take it in place of their own.
 */
export class Vector3 {
  constructor(x = 0.0, y = 0.0, z = 0.0) {
    this.x = x;
    this.y = y;
    this.z = z;
  }

  get isVector3() { return true; }
  set(x, y, z) { this.x = x; this.y = y; this.z = z; return this; }
  clone() { return new this.constructor(this.x, this.y, this.z); }
  copy(v) { return this.set(v.x, v.y, v.z); }
  add(v) { return this.addVectors(this, v); }
  addVectors(a, b) { return this.set(a.x + b.x, a.y + b.y, a.z + b.z); }
  addScaledVector(v, s) { return this.set(this.x + s * v.x, this.y + s * v.y, this.z + s * v.z); }
  sub(v) { return this.subVectors(this, v); }
  subVectors(a, b) { return this.set(a.x - b.x, a.y - b.y, a.z - b.z); }
  multiplyScalar(s) { return this.set(s * this.x, s * this.y, s * this.z); }
  divideScalar(s) { return this.multiplyScalar(1.0 / s); }
  negate() { return this.set(-this.x, -this.y, -this.z); }
  dot(v) { return this.x * v.x + this.y * v.y + this.z * v.z; }
  cross(v) { return this.crossVectors(this, v); }
  crossVectors(a, b) { return this.set(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x); }
  lengthSq() { return this.dot(this); }
  length() { return Math.sqrt(this.lengthSq()); }
  normalize() { return this.divideScalar(this.length() || 1.0); }
  distanceTo(v) { return Math.hypot(this.x - v.x, this.y - v.y, this.z - v.z); }
  equals(v) { return this.x === v.x && this.y === v.y && this.z === v.z; }
  toArray(array = [], offset = 0) { [array[offset], array[offset + 1], array[offset + 2]] = this; return array; }
  fromArray(array, offset = 0) { return this.set(array[offset], array[offset + 1], array[offset + 2]); }
  *[Symbol.iterator]() { yield this.x; yield this.y; yield this.z; }

  /** v + 2 w (u x v) + 2 u x (u x v) with q = (w, u): from the body to the world, if q_WB is the quaternion. */
  applyQuaternion(q) {
    const u = new Vector3(q.x, q.y, q.z), t = new Vector3().crossVectors(u, this).multiplyScalar(2.0);
    return this.addScaledVector(t, q.w).add(u.cross(t));
  }

  /** M v, for a THREE.Matrix3: nine elements, column by column. */
  applyMatrix3({ elements: m }) {
    const { x, y, z } = this;
    return this.set(m[0] * x + m[3] * y + m[6] * z, m[1] * x + m[4] * y + m[7] * z, m[2] * x + m[5] * y + m[8] * z);
  }
}

/**
 * A quaternion with the methods of THREE.Quaternion that physics needs. Its numbers are stored as _x, _y, _z, _w, where the
 * functions of three.js (Euler.setFromQuaternion, Matrix4.makeRotationFromQuaternion) read them.
 */
export class Quaternion {
  constructor(x = 0.0, y = 0.0, z = 0.0, w = 1.0) {
    this._x = x;
    this._y = y;
    this._z = z;
    this._w = w;
  }

  get x() { return this._x; }
  set x(value) { this._x = value; }
  get y() { return this._y; }
  set y(value) { this._y = value; }
  get z() { return this._z; }
  set z(value) { this._z = value; }
  get w() { return this._w; }
  set w(value) { this._w = value; }

  get isQuaternion() { return true; }
  set(x, y, z, w) { this._x = x; this._y = y; this._z = z; this._w = w; return this; }
  identity() { return this.set(0.0, 0.0, 0.0, 1.0); }
  clone() { return new this.constructor(this.x, this.y, this.z, this.w); }
  copy(q) { return this.set(q.x, q.y, q.z, q.w); }
  conjugate() { return this.set(-this.x, -this.y, -this.z, this.w); }
  invert() { return this.conjugate(); } // of a unit quaternion, as in three.js
  dot(q) { return this.x * q.x + this.y * q.y + this.z * q.z + this.w * q.w; }
  lengthSq() { return this.dot(this); }
  length() { return Math.sqrt(this.lengthSq()); }
  multiply(q) { return this.multiplyQuaternions(this, q); }
  premultiply(q) { return this.multiplyQuaternions(q, this); }
  equals(q) { return this.x === q.x && this.y === q.y && this.z === q.z && this.w === q.w; }
  toArray(array = [], offset = 0) {
    [array[offset], array[offset + 1], array[offset + 2], array[offset + 3]] = this;
    return array;
  }
  fromArray(array, offset = 0) { return this.set(...array.slice(offset, offset + 4)); }
  toJSON() { return this.toArray(); }
  *[Symbol.iterator]() { yield this.x; yield this.y; yield this.z; yield this.w; }

  normalize() {
    const length = this.length();
    return length === 0.0 ? this.identity() : this.set(this.x / length, this.y / length, this.z / length, this.w / length);
  }

  /** a b: first the rotation b, then a. */
  multiplyQuaternions(a, b) {
    return this.set(
      a.w * b.x + a.x * b.w + a.y * b.z - a.z * b.y,
      a.w * b.y - a.x * b.z + a.y * b.w + a.z * b.x,
      a.w * b.z + a.x * b.y - a.y * b.x + a.z * b.w,
      a.w * b.w - a.x * b.x - a.y * b.y - a.z * b.z,
    );
  }

  /** (sin(angle / 2) axis, cos(angle / 2)), axis of length 1, angle [rad]. */
  setFromAxisAngle(axis, angle) {
    const s = Math.sin(0.5 * angle);
    return this.set(s * axis.x, s * axis.y, s * axis.z, Math.cos(0.5 * angle));
  }
}
