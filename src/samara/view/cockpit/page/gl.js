// WebGL 2 helpers: programs whose uniforms are set by name, vertex lists, and the shadow map.

export function createProgram(gl, [vertex, fragment]) {
  const program = gl.createProgram();
  for (const [type, text] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
    const shader = gl.createShader(type);
    gl.shaderSource(shader, text);
    gl.compileShader(shader);
    if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(shader));
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(program));
  const uniforms = {};
  for (let i = 0; i < gl.getProgramParameter(program, gl.ACTIVE_UNIFORMS); i++) {
    const { name, type } = gl.getActiveUniform(program, i);
    uniforms[name] = [gl.getUniformLocation(program, name), type];
  }
  return { program, uniforms };
}

/** Use a program with uniform values: numbers, matrices, vectors { x, y, z } and pairs [x, y]. */
export function useProgram(gl, { program, uniforms }, values) {
  gl.useProgram(program);
  for (const [name, value] of Object.entries(values)) {
    const [location, type] = uniforms[name] ?? [];
    if (!location) continue;
    if (type === gl.FLOAT_MAT4) gl.uniformMatrix4fv(location, false, value);
    else if (type === gl.FLOAT_VEC3) Array.isArray(value) ? gl.uniform3fv(location, value) : gl.uniform3f(location, value.x, value.y, value.z);
    else if (type === gl.FLOAT_VEC2) gl.uniform2fv(location, value);
    else if (type === gl.FLOAT) gl.uniform1f(location, value);
    else gl.uniform1i(location, value);
  }
}

/** Create a vertex list with a layout of attributes: [3, 3, 3] are three vectors. */
export function vertexList(gl, layout) {
  const array = gl.createVertexArray(), buffer = gl.createBuffer(), stride = layout.reduce((a, b) => a + b);
  gl.bindVertexArray(array);
  gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
  layout.reduce((offset, size, i) => {
    gl.enableVertexAttribArray(i);
    gl.vertexAttribPointer(i, size, gl.FLOAT, false, 4 * stride, 4 * offset);
    return offset + size;
  }, 0);
  return {
    count: 0,
    fill(numbers, count = numbers.length / stride) {
      gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
      gl.bufferData(gl.ARRAY_BUFFER, numbers, gl.DYNAMIC_DRAW);
      this.count = count;
    },
    draw(mode = gl.TRIANGLES) {
      gl.bindVertexArray(array);
      gl.drawArrays(mode, 0, this.count);
    },
  };
}

/** Create a depth texture for shadow comparison. */
export function depthMap(gl, size) {
  const texture = gl.createTexture(), frame = gl.createFramebuffer();
  gl.bindTexture(gl.TEXTURE_2D, texture);
  gl.texStorage2D(gl.TEXTURE_2D, 1, gl.DEPTH_COMPONENT24, size, size);
  for (const [name, value] of [
    ["MIN_FILTER", gl.LINEAR], ["MAG_FILTER", gl.LINEAR], ["WRAP_S", gl.CLAMP_TO_EDGE], ["WRAP_T", gl.CLAMP_TO_EDGE],
    ["COMPARE_MODE", gl.COMPARE_REF_TO_TEXTURE], ["COMPARE_FUNC", gl.LEQUAL],
  ])
    gl.texParameteri(gl.TEXTURE_2D, gl[`TEXTURE_${name}`], value);
  gl.bindFramebuffer(gl.FRAMEBUFFER, frame);
  gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.DEPTH_ATTACHMENT, gl.TEXTURE_2D, texture, 0);
  gl.bindFramebuffer(gl.FRAMEBUFFER, null);
  return { texture, frame, size };
}
