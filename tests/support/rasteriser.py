"""An independent renderer: triangles of meshes, projected and filled with a depth buffer. It shares no code with Samara."""

from itertools import pairwise

import numpy as np

NEAR = 0.05  # [m]: triangles are cut there


def rotation(roll, pitch, yaw):
    """Rz(yaw) Ry(pitch) Rx(roll)"""
    (cr, cp, cy), (sr, sp, sy) = np.cos([roll, pitch, yaw]), np.sin([roll, pitch, yaw])
    z = np.array([[cy, -sy, 0], [sy, cy, 0], [0, 0, 1]])
    y = np.array([[cp, 0, sp], [0, 1, 0], [-sp, 0, cp]])
    return z @ y @ np.array([[1, 0, 0], [0, cr, -sr], [0, sr, cr]])


def box_mesh(centre, half, turn):
    """Quadrilaterals (6, 4, 3)"""
    faces = []
    for axis in range(3):
        a, b = (axis + 1) % 3, (axis + 2) % 3
        for side in (-1, 1):
            corners = np.zeros((4, 3))
            corners[:, axis] = side
            corners[:, a], corners[:, b] = (-1, 1, 1, -1), (-1, -1, 1, 1)
            faces.append(centre + (corners * half) @ turn.T)
    return np.array(faces)


def round_mesh(start, end, radius, meridians=48, rings=12):
    """Quadrilaterals (n, 4, 3) of a ball, or of a rod with round ends"""
    axis = end - start
    length = np.linalg.norm(axis)
    z = axis / length if length > 0 else np.array([0.0, 0.0, 1.0])
    x = np.cross(z, [1.0, 0.0, 0.0] if abs(z[0]) < 0.7 else [0.0, 1.0, 0.0])
    x /= np.linalg.norm(x)
    y = np.cross(z, x)
    angles = np.linspace(0, 2 * np.pi, meridians + 1)
    circle = np.cos(angles)[:, None] * x + np.sin(angles)[:, None] * y
    latitudes = np.linspace(-np.pi / 2, 0, rings)
    levels = [start + radius * (np.cos(t) * circle + np.sin(t) * z) for t in latitudes]
    levels += [end + radius * (np.cos(t) * circle - np.sin(t) * z) for t in latitudes[::-1]]
    quads = [np.stack([low[:-1], low[1:], high[1:], high[:-1]], axis=1) for low, high in pairwise(levels)]
    return np.concatenate(quads)


def cut(polygon):
    """The part of a polygon (k, 3) with x ≥ NEAR, in the camera's axes"""
    result = []
    for a, b in zip(polygon, np.roll(polygon, -1, axis=0), strict=True):
        if a[0] >= NEAR:
            result.append(a)
        if (a[0] >= NEAR) != (b[0] >= NEAR):
            result.append(a + (b - a) * (NEAR - a[0]) / (b[0] - a[0]))
    return np.array(result)


def rasterise(meshes, position, turn, matrix, shape):
    """Fill the pixels (rows, columns) with the number of the nearest mesh, 0 for none, and its depth.

    `meshes` are (number, polygons (n, k, 3)); `matrix` is that of OpenCV, for pixel centres at whole numbers.
    """
    numbers, depth = np.zeros(shape, int), np.full(shape, np.inf)
    for number, polygons in meshes:
        for polygon in (polygons - position) @ turn:
            seen = cut(polygon)
            if len(seen) < 3:
                continue
            u = matrix[0, 0] * -seen[:, 1] / seen[:, 0] + matrix[0, 2]
            v = matrix[1, 1] * -seen[:, 2] / seen[:, 0] + matrix[1, 2]
            for k in range(1, len(seen) - 1):
                fill(numbers, depth, number, u[[0, k, k + 1]], v[[0, k, k + 1]], 1.0 / seen[[0, k, k + 1], 0])
    return numbers, depth


def fill(numbers, depth, number, u, v, inverse_depth):
    """Fill a triangle; the inverse depth is linear in the image"""
    rows, columns = numbers.shape
    first_u, last_u = max(0, int(np.ceil(u.min()))), min(columns - 1, int(np.floor(u.max())))
    first_v, last_v = max(0, int(np.ceil(v.min()))), min(rows - 1, int(np.floor(v.max())))
    area = (u[1] - u[0]) * (v[2] - v[0]) - (u[2] - u[0]) * (v[1] - v[0])
    if first_u > last_u or first_v > last_v or area == 0:
        return
    x, y = np.arange(first_u, last_u + 1)[None], np.arange(first_v, last_v + 1)[:, None]
    weights = [((u[b] - u[a]) * (y - v[a]) - (v[b] - v[a]) * (x - u[a])) / area for a, b in ((1, 2), (2, 0), (0, 1))]
    z = 1.0 / sum(w * d for w, d in zip(weights, inverse_depth, strict=True))
    window = slice(first_v, last_v + 1), slice(first_u, last_u + 1)
    nearer = (weights[0] >= 0) & (weights[1] >= 0) & (weights[2] >= 0) & (z < depth[window])
    depth[window][nearer], numbers[window][nearer] = z[nearer], number
