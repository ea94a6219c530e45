//! Plots of means with their confidence intervals: panels one above the other, each with its own axis from 0.

use std::fmt::Write as _;

use super::{WIDTH, escape, round_up, short};

/// A mean with its confidence interval.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// The label of the line.
    pub name: String,
    /// The mean.
    pub mean: f64,
    /// Half of the interval's width; `None` for no interval.
    pub half: Option<f64>,
    /// The samples behind the mean, drawn as faint points.
    pub samples: Vec<f64>,
}

/// Estimates that share an axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The label of the axis, with the unit.
    pub label: String,
    /// The estimates in order, one line each.
    pub estimates: Vec<Estimate>,
}

const LEFT: f64 = 230.0;
const RIGHT: f64 = 40.0;
const TOP: f64 = 46.0;
const LINE: f64 = 22.0;
const HEAD: f64 = 20.0;
const FOOT: f64 = 34.0;

/// Draws the plot. It is readable in black and white: a point is a mean, the bar through it the interval, small
/// rings are samples.
#[must_use]
pub fn svg(title: &str, groups: &[Group]) -> String {
    let tall = |group: &Group| HEAD + LINE * group.estimates.len() as f64 + FOOT;
    let height = TOP + groups.iter().map(tall).sum::<f64>();
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"16\" y=\"18\" font-size=\"15\">{}</text>",
        escape(title)
    );
    let mut top = TOP;
    for group in groups {
        draw(&mut out, group, top);
        top += tall(group);
    }
    out.push_str("</svg>\n");
    out
}

fn draw(out: &mut String, group: &Group, top: f64) {
    let ends = group.estimates.iter().flat_map(|e| {
        let most = e.mean + e.half.unwrap_or(0.0);
        e.samples.iter().copied().chain([most])
    });
    let most = ends.filter(|v| v.is_finite()).fold(0.0, f64::max);
    let step = round_up(if most > 0.0 { most / 6.0 } else { 0.25 });
    let most = (most / step).ceil().max(1.0) * step;
    let x = |value: f64| LEFT + value.clamp(0.0, most) / most * (WIDTH - LEFT - RIGHT);
    let (head, foot) = (top + HEAD, top + HEAD + LINE * group.estimates.len() as f64);
    let _ = writeln!(
        out,
        "<text x=\"16\" y=\"{:.1}\" font-weight=\"bold\">{}</text>",
        top + 12.0,
        escape(&group.label)
    );
    for line in 0..=(most / step).round() as u32 {
        let value = f64::from(line) * step;
        let at = x(value);
        let _ = writeln!(
            out,
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{head:.1}\" y2=\"{foot:.1}\" stroke=\"#ddd\"/>\n\
             <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"11\">{}</text>",
            foot + 14.0,
            short(value)
        );
    }
    for (number, estimate) in group.estimates.iter().enumerate() {
        let y = head + LINE * (number as f64 + 0.5);
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 10.0,
            y + 4.0,
            escape(&estimate.name)
        );
        for sample in estimate.samples.iter().filter(|v| v.is_finite()) {
            let _ = writeln!(
                out,
                "<circle cx=\"{:.1}\" cy=\"{y:.1}\" r=\"2.5\" fill=\"none\" stroke=\"#999\"/>",
                x(*sample)
            );
        }
        if !estimate.mean.is_finite() {
            continue;
        }
        if let Some(half) = estimate.half.filter(|half| half.is_finite()) {
            let (low, high) = (x(estimate.mean - half), x(estimate.mean + half));
            let _ = writeln!(
                out,
                "<path d=\"M{low:.1} {y:.1}H{high:.1}M{low:.1} {:.1}v8M{high:.1} {:.1}v8\" stroke=\"#0072b2\" \
                 stroke-width=\"1.5\" fill=\"none\"/>",
                y - 4.0,
                y - 4.0
            );
        }
        let _ = writeln!(
            out,
            "<circle cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"#0072b2\"/>",
            x(estimate.mean)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_drawn_where_it_is() {
        let estimate = |name: &str, mean, half| Estimate {
            name: name.into(),
            mean,
            half,
            samples: vec![mean, f64::NAN],
        };
        let group = Group {
            label: "rate & more".into(),
            estimates: vec![
                estimate("<a>", 4.0, Some(2.0)),
                estimate("b", 12.0, None),
                estimate("c", f64::NAN, None),
            ],
        };
        let picture = svg("t", &[group]);
        assert!(picture.contains("&lt;a&gt;") && picture.contains("rate &amp; more"));
        // The axis ends at 12: 2 to 6 of it are a sixth and a half.
        let width = WIDTH - LEFT - RIGHT;
        let bar = format!("M{:.1} 77.0H{:.1}", LEFT + width / 6.0, LEFT + width / 2.0);
        assert!(picture.contains(&bar), "{bar}\n{picture}");
        assert_eq!(picture.matches("r=\"4\"").count(), 2);
        assert!(!picture.contains("NaN"));
        assert!(svg("empty", &[]).ends_with("</svg>\n"));
    }
}
