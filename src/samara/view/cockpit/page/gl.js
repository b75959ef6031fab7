// WebGL 2 in a few words: programs whose uniforms are set by name, and a map of what the sun sees.

export function program(gl, [vertex, fragment]) {
  const own = gl.createProgram();
  for (const [kind, text] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, text);
    gl.compileShader(shader);
    if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(shader));
    gl.attachShader(own, shader);
  }
  gl.linkProgram(own);
  if (!gl.getProgramParameter(own, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(own));
  const places = {};
  for (let i = 0; i < gl.getProgramParameter(own, gl.ACTIVE_UNIFORMS); i++) {
    const { name, type } = gl.getActiveUniform(own, i);
    places[name] = [gl.getUniformLocation(own, name), type];
  }
  return { own, places };
}

/** Uses a program with these numbers, matrices, vectors { x, y, z } and pairs [x, y]. */
export function use(gl, { own, places }, values) {
  gl.useProgram(own);
  for (const [name, value] of Object.entries(values)) {
    const [place, type] = places[name] ?? [];
    if (!place) continue;
    if (type === gl.FLOAT_MAT4) gl.uniformMatrix4fv(place, false, value);
    else if (type === gl.FLOAT_VEC3) Array.isArray(value) ? gl.uniform3fv(place, value) : gl.uniform3f(place, value.x, value.y, value.z);
    else if (type === gl.FLOAT_VEC2) gl.uniform2fv(place, value);
    else if (type === gl.FLOAT) gl.uniform1f(place, value);
    else gl.uniform1i(place, value);
  }
}

/** A list of corners and how its numbers are laid out: [3, 3, 3] are three vectors. */
export function corners(gl, layout) {
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

/** A picture of depths alone, to be compared with. */
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
