use super::*;

fn curve(name: &str, points: Vec<(f64, f64)>, style: Style) -> Curve {
    Curve {
        name: name.into(),
        points,
        style,
    }
}

fn figure(begin_s: f64, curves: Vec<Curve>, marks: Vec<Mark>) -> Figure {
    Figure {
        title: "t".into(),
        time_label: "lab time (s)".into(),
        begin_s,
        panels: vec![Panel {
            label: "x & y (ms)".into(),
            curves,
            from_zero: true,
        }],
        marks,
        notes: Vec::new(),
    }
}

fn mark(t_s: f64, name: &str, kind: MarkKind) -> Mark {
    Mark {
        t_s,
        name: name.into(),
        kind,
    }
}

/// The paths of a picture whose element has this part.
fn paths<'a>(picture: &'a str, part: &str) -> Vec<&'a str> {
    let elements = picture
        .lines()
        .filter(|line| line.starts_with("<path") && line.contains(part));
    elements.filter_map(|line| line.split('"').nth(1)).collect()
}

/// Numbers of others: at 5e15 s, a tenth of a second does not change the number of a tick.
#[test]
fn a_plot_of_any_numbers_ends() {
    let numbers = [
        0.0,
        5e15,
        9e15,
        1e300,
        f64::MAX,
        f64::MIN_POSITIVE,
        5e-324,
        f64::NAN,
        f64::INFINITY,
    ];
    for t_s in numbers.into_iter().flat_map(|t_s| [t_s, -t_s]) {
        for value in numbers.into_iter().flat_map(|value| [value, -value]) {
            let points = vec![(t_s, value)];
            let picture =
                figure(t_s, vec![curve("c", points, Style::Line)], vec![]).svg(&Look::default());
            assert!(picture.lines().count() < 80, "{t_s} {value}: {picture}");
        }
    }
}

#[test]
fn curves_stay_within_their_panel_and_gaps_are_gaps() {
    let points = vec![
        (0.0, 0.0),
        (2.0, 4.0),
        (5.0, f64::NAN),
        (10.0, 7.0),
        (20.0, 3.0),
    ];
    let marks = vec![mark(4.0, "begin <b>", MarkKind::Stage)];
    let picture =
        figure(0.0, vec![curve("a <b>", points, Style::Line)], marks).svg(&Look::default());
    assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"));
    assert!(picture.contains("a &lt;b&gt;") && picture.contains("x &amp; y (ms)"));
    assert!(picture.contains("4 s: begin &lt;b&gt;"));
    assert!(picture.contains(">lab time (s)</text>"));
    // One line in the legend, and the two pieces around the gap.
    assert_eq!(paths(&picture, "stroke-linejoin").len(), 3, "{picture}");
}

#[test]
fn curves_at_the_same_values_are_told_apart_without_colour() {
    let points: Vec<(f64, f64)> = (0..100).map(|t| (f64::from(t), 1.0)).collect();
    let curves = ["a", "b", "c"].map(|name| curve(name, points.clone(), Style::Line));
    let picture = figure(0.0, curves.to_vec(), vec![]).svg(&Look::default());
    let lines: Vec<&str> = picture
        .lines()
        .filter(|l| l.contains("stroke-linejoin"))
        .collect();
    assert_eq!(lines.len(), 6);
    let dashes = |line: &str| line.split("stroke-dasharray").nth(1).map(str::to_owned);
    let of_curves: Vec<Option<String>> = lines[3..].iter().map(|line| dashes(line)).collect();
    assert!(of_curves[0].is_none() && of_curves[1].is_some() && of_curves[2] != of_curves[1]);
    // The first curve is wider than those that cover it.
    assert!(
        lines[3].contains("stroke-width=\"1.60\"") && lines[4].contains("stroke-width=\"1.00\"")
    );
    // No two curves have a marker at the same place.
    let markers = paths(&picture, "fill=\"white\" stroke=\"#");
    let of_curves = &markers[3..];
    let first = |path: &str| path[1..].split(' ').next().unwrap().to_owned();
    let mut places: Vec<String> = of_curves.iter().map(|path| first(path)).collect();
    places.dedup();
    assert_eq!(places.len(), 3, "{of_curves:?}");
}

#[test]
fn marks_that_are_close_share_a_number_and_many_are_counted() {
    let points = vec![(0.0, 1.0), (100.0, 1.0)];
    let drawn = |marks| {
        figure(0.0, vec![curve("c", points.clone(), Style::Line)], marks).svg(&Look::default())
    };
    let picture = drawn(vec![
        mark(9.0, "handover of lagos", MarkKind::Handover),
        mark(9.0, "path 2", MarkKind::Path),
        mark(50.0, "loss of a-b set", MarkKind::ByHand),
    ]);
    assert!(
        picture.contains(">9 s: handover of lagos; path 2<"),
        "{picture}"
    );
    assert!(picture.contains(">50 s: loss of a-b set<"));
    // Each head is above the panel and again before its text.
    let heads = paths(&picture, "fill=\"black\" stroke=\"black\"");
    assert_eq!(heads.len(), 2, "{picture}");
    let many = (0..30).map(|n| mark(3.0 * f64::from(n), "handover of x", MarkKind::Handover));
    let picture = drawn(many.collect());
    assert!(picture.contains(">30 handovers<") && !picture.contains("handover of x"));
}

#[test]
fn time_may_begin_late_and_dots_are_separate() {
    let points = vec![(1_000.0, 1.0), (1_005.0, 1.0), (1_010.0, 1.0)];
    let curves = vec![
        curve("c", points.clone(), Style::Dots),
        curve("lost", points, Style::Rug),
    ];
    let picture = figure(1_000.0, curves, vec![]).svg(&Look::default());
    let crosses = paths(&picture, "fill=\"white\" stroke=\"#000000\"");
    assert_eq!(crosses[1].matches('m').count(), 3, "{crosses:?}");
    let strokes = paths(&picture, "fill=\"none\" stroke=\"#000000\"");
    assert_eq!(strokes[1].matches('v').count(), 3, "{strokes:?}");
    assert!(picture.contains(">1000</text>") && picture.contains(">1010</text>"));
    assert!(!picture.contains(">999</text>"));
}

#[test]
fn a_panel_without_values_is_not_drawn() {
    let mut empty = figure(
        0.0,
        vec![curve("c", vec![(1.0, f64::NAN)], Style::Dots)],
        vec![],
    );
    let picture = empty.svg(&Look::default());
    assert!(
        !picture.contains("NaN") && !picture.contains("x &amp; y"),
        "{picture}"
    );
    let full = curve("full", vec![(1.0, 1.0)], Style::Line);
    empty.panels[0].curves.push(full);
    let picture = empty.svg(&Look::default());
    assert!(
        picture.contains(">full<") && !picture.contains(">c<"),
        "{picture}"
    );
    empty.panels.clear();
    assert!(empty.svg(&Look::default()).contains("</svg>"));
}

#[test]
fn the_width_is_that_of_the_look_and_the_title_may_go() {
    let mut look = Look {
        width: "3.4in".parse().unwrap(),
        ..Look::default()
    };
    let drawn = figure(0.0, vec![curve("c", vec![(0.0, 1.0)], Style::Line)], vec![]);
    let picture = drawn.svg(&look);
    assert!(picture.contains("width=\"3.4in\"") && picture.contains("viewBox=\"0 0 244.80 "));
    assert!(picture.contains("font-size=\"9.60\">t<"));
    look.title = false;
    assert!(!drawn.svg(&look).contains("font-size=\"9.60\""));
}

/// Compares a picture with the one that is kept. `CONSTEL_BLESS=1` keeps the new one: look at it before you commit it.
fn golden(name: &str, picture: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src/plot/golden")
        .join(name);
    if std::env::var_os("CONSTEL_BLESS").is_some() {
        std::fs::write(&path, picture).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap();
    assert_eq!(kept, picture, "{}", path.display());
}

#[test]
fn a_picture_over_time_is_as_it_was() {
    let delays = vec![
        (0.0, 51.6),
        (4.0, 52.0),
        (4.2, 79.0),
        (6.0, f64::NAN),
        (7.0, 79.5),
        (10.0, 79.4),
    ];
    let bound = vec![(0.0, 51.5), (4.1, 51.5), (4.1, 78.8), (10.0, 78.9)];
    let curves = vec![
        curve("measured, N = 5", delays.clone(), Style::Line),
        curve("reverse, N = 5", delays, Style::Line),
        curve("shortest path", bound, Style::Dashed),
        curve("emulation late, N = 1", vec![(7.0, 79.5)], Style::Dots),
        curve("lost, N = 1", vec![(6.0, 0.0)], Style::Rug),
    ];
    let marks = vec![
        mark(4.1, "handover of lagos from a to b", MarkKind::Handover),
        mark(4.1, "path 2", MarkKind::Path),
        mark(8.0, "by hand: link a-b set to loss 0.01", MarkKind::ByHand),
        mark(9.0, "failure laser begins", MarkKind::Failure),
    ];
    let mut drawn = figure(0.0, curves, marks);
    drawn.panels[0].from_zero = false;
    drawn.notes.push("A note.".to_owned());
    golden("time.svg", &drawn.svg(&Look::default()));
}

#[test]
fn a_picture_of_repeats_is_as_it_was() {
    let estimate = |name: &str, interval, samples: Vec<f64>| intervals::Estimate {
        name: name.to_owned(),
        median: 2.0,
        interval,
        n: samples.len(),
        samples,
    };
    let drawn = intervals::Group {
        title: "Flow download: throughput".to_owned(),
        label: "throughput (Mbit/s)".to_owned(),
        interval: Some("95 % interval of the median".to_owned()),
        sample: "a run".to_owned(),
        estimates: vec![
            estimate(
                "cubic",
                Some([-1.0, 4.0]),
                vec![0.0, 1.0, 2.0, 2.0, 3.0, 4.0],
            ),
            estimate("bbr", None, vec![1.5, 2.5]),
        ],
        bounds: [0.0, f64::INFINITY],
        notes: vec!["A 95 % interval of the median needs six values or more.".to_owned()],
    };
    let look = Look {
        width: "3.4in".parse().unwrap(),
        ..Look::default()
    };
    golden("repeats.svg", &drawn.svg(&look));
}
