//! CZML for Cesium: positions in the FIXED frame in metres, sampled from an epoch on.
//!
//! One packet an object with `[t, x, y, z, ...]`, interpolated by Lagrange polynomials of degree 5 as Cesium does
//! by default for moving objects; one packet a link, a line between two objects, shown while the link exists.

use std::io::{self, Write};

use constel_orbit::DVec3;
use constel_units::{TimeSpan, Utc};
use serde_json::{Value, json};

/// Degree of the polynomials between samples.
pub const DEGREE: u32 = 5;

/// Red, green, blue, alpha, 0 to 255.
pub type Rgba = [u8; 4];

/// The content of a document.
#[derive(Debug, Clone)]
pub struct Scene {
    /// Name of the document.
    pub name: String,
    /// First instant.
    pub start: Utc,
    /// Last instant.
    pub end: Utc,
    /// The bodies; names are unique.
    pub bodies: Vec<Body>,
    /// Lines between bodies.
    pub lines: Vec<Line>,
}

/// A body with a position.
#[derive(Debug, Clone)]
pub struct Body {
    /// The body's name; also its identifier.
    pub name: String,
    /// Further text about it, shown when a user clicks on it.
    pub description: Option<String>,
    /// Colour of its point.
    pub color: Rgba,
    /// Size of its point, pixels.
    pub pixels: u32,
    /// Whether the name is written next to it.
    pub labelled: bool,
    /// The body's position.
    pub place: BodyPosition,
}

/// The position of a body, ITRF, metres.
#[derive(Debug, Clone)]
pub enum BodyPosition {
    /// Present all the time.
    Fixed(DVec3),
    /// Present at these positions, in separate runs: between two runs it has no position.
    Sampled {
        /// Time between two places of a run.
        step: TimeSpan,
        /// The runs, in order; none of them empty.
        runs: Vec<Run>,
    },
}

/// Places one after another.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Number of steps from the scene's start to the first.
    pub first: usize,
    /// The places.
    pub positions_itrf_m: Vec<DVec3>,
}

/// A line between two bodies.
#[derive(Debug, Clone)]
pub struct Line {
    /// One end's name.
    pub a: String,
    /// The other's.
    pub b: String,
    /// Colour.
    pub color: Rgba,
    /// When it is there; in order, not overlapping.
    pub shown: Vec<(Utc, Utc)>,
}

/// Writes the document.
///
/// # Errors
/// Those of `out`.
pub fn write(scene: &Scene, out: &mut impl Write) -> io::Result<()> {
    let whole = interval(scene.start, scene.end);
    let document = json!({
        "id": "document", "name": scene.name, "version": "1.0",
        "clock": {
            "interval": whole, "currentTime": scene.start.to_string(), "multiplier": 10,
            "range": "LOOP_STOP", "step": "SYSTEM_CLOCK_MULTIPLIER",
        },
    });
    write!(out, "[\n{document}")?;
    for body in &scene.bodies {
        write!(out, ",\n{}", body_packet(scene, body, &whole))?;
    }
    for line in &scene.lines {
        write!(out, ",\n{}", line_packet(line, &whole))?;
    }
    writeln!(out, "\n]")
}

fn interval(from: Utc, to: Utc) -> String {
    format!("{from}/{to}")
}

fn body_packet(scene: &Scene, body: &Body, whole: &str) -> Value {
    let (availability, position) = match &body.place {
        BodyPosition::Fixed(p) => (
            json!(whole),
            json!({"referenceFrame": "FIXED", "cartesian": [mm(p.x), mm(p.y), mm(p.z)]}),
        ),
        BodyPosition::Sampled { step, runs } => sampled(scene, *step, runs),
    };
    let mut packet = json!({
        "id": body.name, "name": body.name, "availability": availability, "position": position,
        "point": {"pixelSize": body.pixels, "color": {"rgba": body.color}},
    });
    if let Some(description) = &body.description {
        packet["description"] = json!(description);
    }
    if body.labelled {
        packet["label"] = json!({
            "text": body.name, "font": "12px sans-serif", "fillColor": {"rgba": body.color},
            "pixelOffset": {"cartesian2": [8, -8]}, "horizontalOrigin": "LEFT",
        });
    }
    packet
}

/// Returns the times at which a body has a position, and the positions. With several runs both are lists: each
/// run has an interval with its own samples, so that Cesium does not interpolate over a hole.
fn sampled(scene: &Scene, step: TimeSpan, runs: &[Run]) -> (Value, Value) {
    let at = |sample: usize| {
        let ns = step
            .ns()
            .saturating_mul(i64::try_from(sample).unwrap_or(i64::MAX));
        Utc::from_unix_ns(scene.start.unix_ns().saturating_add(ns))
    };
    let interval_of = |run: &Run| {
        let last = run.first + run.positions_itrf_m.len().saturating_sub(1);
        interval(at(run.first), at(last).min(scene.end))
    };
    let samples = |run: &Run| {
        let numbered = (run.first..).zip(&run.positions_itrf_m);
        let samples =
            numbered.flat_map(|(n, p)| [n as f64 * step.seconds(), mm(p.x), mm(p.y), mm(p.z)]);
        json!({
            "epoch": scene.start.to_string(), "referenceFrame": "FIXED",
            "interpolationAlgorithm": "LAGRANGE", "interpolationDegree": DEGREE,
            "cartesian": samples.collect::<Vec<f64>>(),
        })
    };
    match runs {
        // It is nowhere all along; an empty list would mean always.
        [] => (
            json!(interval(scene.start, scene.start)),
            json!({"cartesian": []}),
        ),
        [run] => (json!(interval_of(run)), samples(run)),
        _ => {
            let parts = runs.iter().map(|run| {
                let mut part = samples(run);
                part["interval"] = json!(interval_of(run));
                part
            });
            let position: Vec<Value> = parts.collect();
            (
                json!(runs.iter().map(interval_of).collect::<Vec<_>>()),
                json!(position),
            )
        }
    }
}

fn line_packet(line: &Line, whole: &str) -> Value {
    // Later intervals win over earlier ones: dark by default, lit while the link exists.
    let dark = std::iter::once(json!({"interval": whole, "boolean": false}));
    let lit = line
        .shown
        .iter()
        .map(|(from, to)| json!({"interval": interval(*from, *to), "boolean": true}));
    json!({
        "id": format!("link/{}/{}", line.a, line.b), "availability": whole,
        "polyline": {
            "show": dark.chain(lit).collect::<Vec<_>>(), "width": 1, "arcType": "NONE",
            "material": {"solidColor": {"color": {"rgba": line.color}}},
            "positions": {"references": [reference(&line.a), reference(&line.b)]},
        },
    })
}

/// A reference to a body's position; `#`, `.` and `\` separate parts and are escaped.
fn reference(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        if ['#', '.', '\\'].contains(&c) {
            text.push('\\');
        }
        text.push(c);
    }
    text + "#position"
}

/// Metres to a millimetre: shorter files.
fn mm(metres: f64) -> f64 {
    (metres * 1e3).round() / 1e3
}
