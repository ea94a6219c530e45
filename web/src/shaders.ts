// All that is drawn is placed on the GPU: positions of a step and of later are two textures, mixed by time; links know only the
// numbers of their ends. Three views of the same: a globe, a map (equirectangular), a topology (planes and slots).

export const PLACE = /* glsl */ `
precision highp float;
precision highp int;
uniform highp sampler2D uNow;
uniform highp sampler2D uThen;
uniform highp sampler2D uGrid;
uniform float uMix;
uniform int uView;
uniform mat4 uCamera;
uniform vec2 uMapCentre;
uniform vec2 uMapScale;
const float PI = 3.141592653589793;

ivec2 texel(int i) { return ivec2(i & 255, i >> 8); }

// Between two instants satellites fly on arcs, not chords.
vec3 itrf(int i) {
  vec3 a = texelFetch(uNow, texel(i), 0).xyz;
  vec3 b = texelFetch(uThen, texel(i), 0).xyz;
  vec3 m = mix(a, b, uMix);
  float l = length(m);
  return l > 0.0 ? m * (mix(length(a), length(b), uMix) / l) : m;
}

vec2 lonLat(vec3 p) { return vec2(atan(p.y, p.x), asin(clamp(p.z / max(length(p), 1e-6), -1.0, 1.0))); }

vec4 flat2(vec2 p) { return vec4((p - uMapCentre) * uMapScale, 0.0, 1.0); }

vec4 place(vec3 p) {
  if (uView == 0) return uCamera * vec4(p, 1.0);
  return flat2(lonLat(p));
}

vec4 placeNode(int i, out bool there) {
  vec3 p = itrf(i);
  // Not a number: it has no position.
  there = dot(p, p) > 0.0;
  if (uView == 2) {
    vec4 place = texelFetch(uGrid, texel(i), 0);
    there = place.w > 0.5;
    return flat2(place.xy);
  }
  return place(p);
}
`;

export const EARTH_VERTEX = /* glsl */ `
${PLACE}
in vec3 position;
out vec3 vNormal;
out vec2 vLonLat;
void main() {
  vNormal = position;
  if (uView == 0) {
    vLonLat = vec2(0.0);
    gl_Position = uCamera * vec4(position * 0.9965, 1.0);
  } else {
    // The sphere's own mesh has a seam: the map is one quad, laid out by the same two numbers.
    vLonLat = position.xy;
    gl_Position = flat2(position.xy);
    gl_Position.z = 0.999;
  }
}`;

export const EARTH_FRAGMENT = /* glsl */ `
precision highp float;
precision highp int;
uniform sampler2D uLand;
uniform vec3 uSun;
uniform vec3 uEye;
uniform int uView;
uniform vec4 uFoot[4];
uniform vec3 uFootColour;
in vec3 vNormal;
in vec2 vLonLat;
out vec4 colour;
const float PI = 3.141592653589793;

void main() {
  vec2 ll = uView == 0 ? vec2(atan(vNormal.y, vNormal.x), asin(clamp(normalize(vNormal).z, -1.0, 1.0))) : vLonLat;
  vec3 n = uView == 0 ? normalize(vNormal) : vec3(cos(ll.y) * cos(ll.x), cos(ll.y) * sin(ll.x), sin(ll.y));
  vec2 uv = vec2(ll.x / (2.0 * PI) + 0.5, ll.y / PI + 0.5);
  // The derivative jumps at the seam: take it from a coordinate that does not.
  vec2 alt = vec2(fract(uv.x + 0.5) - 0.5, uv.y);
  vec2 dx = dFdx(uv), dy = dFdy(uv);
  if (abs(dx.x) > 0.4) dx = dFdx(alt);
  if (abs(dy.x) > 0.4) dy = dFdy(alt);
  vec4 land = textureGrad(uLand, uv, dx, dy);
  vec3 sea = vec3(0.043, 0.098, 0.172);
  vec3 ground = vec3(0.140, 0.212, 0.255);
  vec3 coast = vec3(0.42, 0.56, 0.62);
  vec3 base = mix(sea, ground, land.r);
  base = mix(base, coast, land.g * 0.85);
  base += vec3(0.05, 0.07, 0.09) * land.b;
  float day = smoothstep(-0.10, 0.18, dot(n, uSun));
  vec3 lit = base * mix(0.42, 1.32, day) + vec3(0.015, 0.02, 0.028) * day;
  float height = dot(n, uSun), thin = fwidth(height) * 0.8;
  lit += vec3(0.30, 0.24, 0.10) * (1.0 - smoothstep(thin, 2.0 * thin, abs(height)));
  for (int i = 0; i < 4; i++) {
    if (uFoot[i].w > -1.0) {
      float d = dot(n, uFoot[i].xyz) - uFoot[i].w;
      float w = fwidth(d) * 1.2;
      lit += uFootColour * (0.10 * step(0.0, d) + 0.55 * (1.0 - smoothstep(w, 2.0 * w, abs(d))));
    }
  }
  if (uView == 0) {
    float rim = 1.0 - max(dot(n, normalize(uEye - n)), 0.0);
    lit += vec3(0.10, 0.24, 0.42) * pow(rim, 3.0) * (0.35 + 0.65 * day);
  }
  colour = vec4(lit, 1.0);
}`;

export const AIR_VERTEX = /* glsl */ `
${PLACE}
in vec3 position;
out vec3 vAt;
void main() {
  vAt = position;
  gl_Position = uView == 0 ? uCamera * vec4(position * 1.045, 1.0) : vec4(2.0, 2.0, 2.0, 1.0);
}`;

export const AIR_FRAGMENT = /* glsl */ `
precision highp float;
uniform vec3 uEye;
uniform vec3 uSun;
in vec3 vAt;
out vec4 colour;
void main() {
  vec3 n = normalize(vAt);
  float edge = max(-dot(n, normalize(uEye - n * 1.045)), 0.0);
  float glow = pow(smoothstep(0.0, 0.42, edge), 2.2);
  float day = 0.35 + 0.65 * smoothstep(-0.4, 0.4, dot(n, uSun));
  colour = vec4(vec3(0.24, 0.52, 0.86) * day, glow * 0.55);
}`;

/** Pieces of a link on the map. */
export const PIECES = 24;

export const LINK_VERTEX = /* glsl */ `
${PLACE}
const float BEND = 1.0 / ${PIECES}.0;
uniform vec2 uViewport;
uniform float uWidth;
// Share of the way, side, and which of two copies (see Lines.shape).
in vec3 corner;
in vec2 ends;
in vec4 tint;
in vec2 style;
out vec4 vTint;
out float vAlong;
out float vLon;
flat out float vDash;

// A link on the map is a great circle, whose points are below those of the chord. Longitudes go on over the date line.
vec2 onMap(vec3 a, vec3 b, float from, float share) {
  vec2 at = lonLat(mix(a, b, clamp(share, 0.0, 1.0)));
  float turn = at.x - from;
  return vec2(from + turn - 2.0 * PI * floor((turn + PI) / (2.0 * PI)), at.y);
}

void main() {
  bool a, b;
  vec4 p = placeNode(int(ends.x), a);
  vec4 q = placeNode(int(ends.y), b);
  vTint = tint;
  vDash = style.y;
  vec4 gone = vec4(2.0, 2.0, 2.0, 1.0);
  if (!a || !b || tint.a <= 0.0) { gl_Position = gone; return; }
  if (uView == 2 && abs(p.x - q.x) / uMapScale.x > 3.2 && style.x < 2.0) { vTint.a *= 0.12; }
  vec2 sp = p.xy / p.w * uViewport, sq = q.xy / q.w * uViewport;
  vec2 way = sq - sp;
  float l = max(length(way), 1e-4);
  vec2 side = vec2(-way.y, way.x) / l;
  vec4 at = corner.x < 0.5 ? p : q;
  vAlong = corner.x * l * 0.5;
  vLon = 0.0;
  if (uView == 1) {
    vec3 from = normalize(itrf(int(ends.x))), to = normalize(itrf(int(ends.y)));
    float lon = lonLat(from).x, last = onMap(from, to, lon, 1.0).x;
    // What leaves the map on one side comes in on the other: the second copy of a link that crosses the date line.
    float shift = last > PI ? -2.0 * PI : last < -PI ? 2.0 * PI : 0.0;
    if (corner.z > 0.5 && shift == 0.0) { gl_Position = gone; return; }
    vec2 here = onMap(from, to, lon, corner.x) + vec2(corner.z * shift, 0.0);
    way = (onMap(from, to, lon, corner.x + BEND) - onMap(from, to, lon, corner.x - BEND)) * uMapScale * uViewport;
    side = vec2(-way.y, way.x) / max(length(way), 1e-4);
    vLon = here.x;
    at = flat2(here);
  }
  at.xy += side * corner.y * uWidth * style.x / uViewport * at.w;
  gl_Position = at;
  if (uView != 0) gl_Position.z = style.x > 1.6 ? 0.2 : 0.5;
}`;

export const LINK_FRAGMENT = /* glsl */ `
precision highp float;
uniform float uMarch;
in vec4 vTint;
in float vAlong;
in float vLon;
flat in float vDash;
out vec4 colour;
void main() {
  if (abs(vLon) > 3.14159265) discard;
  if (vDash > 0.5 && fract((vAlong - uMarch) / (vDash > 1.5 ? 14.0 : 9.0)) > 0.55) discard;
  colour = vTint;
}`;

export const NODE_VERTEX = /* glsl */ `
${PLACE}
uniform float uSize;
uniform float uPicked[2];
in float number;
in vec4 look;
out vec3 vColour;
flat out float vShape;
flat out float vPicked;
void main() {
  bool there;
  vec4 at = placeNode(int(number), there);
  vColour = look.rgb;
  vShape = look.a;
  vPicked = number == uPicked[0] || number == uPicked[1] ? 1.0 : 0.0;
  gl_Position = there ? at : vec4(2.0, 2.0, 2.0, 1.0);
  if (uView != 0) gl_Position.z = 0.3;
  gl_PointSize = uSize * (look.a > 0.5 ? 1.75 : 1.0) + vPicked * 9.0;
}`;

export const NODE_FRAGMENT = /* glsl */ `
precision highp float;
in vec3 vColour;
flat in float vShape;
flat in float vPicked;
out vec4 colour;
void main() {
  vec2 p = gl_PointCoord * 2.0 - 1.0;
  // Discs fly; diamonds stand.
  float r = vShape > 0.5 ? abs(p.x) + abs(p.y) : length(p);
  float inner = vPicked > 0.5 ? 0.55 : 0.92;
  float disc = 1.0 - smoothstep(inner - 0.18, inner, r);
  float ring = vPicked > 0.5 ? smoothstep(0.66, 0.74, r) * (1.0 - smoothstep(0.9, 0.98, r)) : 0.0;
  float a = max(disc, ring);
  if (a < 0.03) discard;
  colour = vec4(mix(vColour, vec3(1.0), ring), a);
}`;

export const TRACK_VERTEX = /* glsl */ `
${PLACE}
in vec3 position;
in vec3 before;
in float share;
out float vShare;
void main() {
  vShare = share;
  gl_Position = place(position);
  if (uView == 1 && abs(lonLat(position).x - lonLat(before).x) > PI) vShare = 9.0;
  if (uView == 2) vShare = 9.0;
  if (uView != 0) gl_Position.z = 0.6;
}`;

export const TRACK_FRAGMENT = /* glsl */ `
precision highp float;
uniform vec3 uTint;
in float vShare;
out vec4 colour;
void main() {
  if (vShare > 1.5) discard;
  colour = vec4(uTint, 0.85 - 0.7 * clamp(vShare, 0.0, 1.0));
}`;

/** Pieces of a trail. */
export const TRAIL_PIECES = 16;

export const TRAIL_VERTEX = /* glsl */ `
${PLACE}
// Angle of a trail, radians.
const float LONG = 0.5;
const float SPIN = 7.2921159e-5;
uniform float uSpan;
// How far behind this end of a piece is, and the other end: shares of the trail.
in vec2 share;
in float number;
in vec3 tone;
out float vShare;
out vec3 vTone;

vec3 spun(vec3 p, float angle) { return vec3(p.x * cos(angle) - p.y * sin(angle), p.x * sin(angle) + p.y * cos(angle), p.z); }

void main() {
  vShare = share.x;
  vTone = tone;
  int i = int(number);
  vec3 a = texelFetch(uNow, texel(i), 0).xyz, b = texelFetch(uThen, texel(i), 0).xyz;
  // In space the satellite flies from a to where b is after the Earth has turned.
  vec3 later = spun(b, SPIN * uSpan);
  vec3 normal = cross(a, later);
  vec3 p = itrf(i);
  if (uView == 2 || !(dot(normal, normal) > 0.0) || !(dot(p, p) > 0.0)) { gl_Position = vec4(2.0, 2.0, 2.0, 1.0); vShare = 9.0; return; }
  float swept = asin(clamp(length(normal) / (length(a) * length(later)), 0.0, 1.0));
  normal = spun(normalize(normal), -SPIN * uSpan * uMix);
  vec3 up = normalize(p), ahead = cross(normal, up);
  float climb = (length(b) - length(a)) / swept;
  float angle = share.x * LONG, other = share.y * LONG;
  vec3 q = (up * cos(angle) - ahead * sin(angle)) * max(1.0, length(p) - climb * angle);
  if (uView == 1) {
    vec3 next = up * cos(other) - ahead * sin(other);
    if (abs(lonLat(q).x - lonLat(next).x) > PI) vShare = 9.0;
  }
  gl_Position = place(q);
  if (uView != 0) gl_Position.z = 0.7;
}`;

export const TRAIL_FRAGMENT = /* glsl */ `
precision highp float;
in float vShare;
in vec3 vTone;
out vec4 colour;
void main() {
  if (vShare > 1.5) discard;
  colour = vec4(vTone, 0.5 * (1.0 - vShare));
}`;
