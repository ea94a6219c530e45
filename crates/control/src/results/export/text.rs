//! Tables as text.

use std::fs::File;
use std::io::{BufWriter, Write};

use super::About;
use super::columns::{Column, Failed, Kind, Source, Values};

/// CSV; how many rows.
pub(super) fn csv(source: &mut dyn Source, out: File) -> Result<u64, Failed> {
    let mut out = BufWriter::new(out);
    let names: Vec<&str> = source.columns().iter().map(|c| c.name.as_str()).collect();
    writeln!(out, "{}", names.join(","))?;
    let mut rows = 0;
    while let Some(values) = source.next()? {
        for row in 0..values[0].len() {
            let cells: Vec<String> = values.iter().map(|v| v.text(row)).collect();
            writeln!(out, "{}", cells.join(","))?;
            rows += 1;
        }
    }
    out.flush()?;
    Ok(rows)
}

/// Writes InfluxDB's line protocol and returns the number of rows. A row without a time or without a number has no meaning
/// there and is left out.
pub(super) fn influx(source: &mut dyn Source, about: &About, out: File) -> Result<u64, Failed> {
    let mut out = BufWriter::new(out);
    let columns = source.columns().to_vec();
    let measurement = match about.table.as_str() {
        "interfaces" | "edges" | "usage" | "handovers" | "paths" | "series" => {
            format!("constel_{},lab={}", about.table, tag(&about.lab))
        }
        flow => format!("constel_flow,lab={},flow={}", tag(&about.lab), tag(flow)),
    };
    let time = |column: &Column| column.name == "t_ns" || column.name == "t_s";
    let only_words = columns.iter().all(|c| time(c) || c.kind == Kind::Text);
    let mut rows = 0;
    while let Some(values) = source.next()? {
        for row in 0..values[0].len() {
            let Some(t_ns) = time_ns(&columns, &values, row) else {
                continue;
            };
            let (mut tags, mut fields) = (String::new(), Vec::new());
            for (column, values) in columns.iter().zip(&values) {
                match values {
                    Values::Text(texts) => {
                        if let Some(text) = texts[row].as_deref().filter(|text| !text.is_empty()) {
                            tags.push_str(&format!(",{}={}", tag(&column.name), tag(text)));
                        }
                    }
                    _ if time(column) => {}
                    Values::Integer(numbers) => {
                        fields.extend(numbers[row].map(|n| format!("{}={n}i", tag(&column.name))));
                    }
                    Values::Float(numbers) => {
                        let number = numbers[row].filter(|n| n.is_finite());
                        fields.extend(number.map(|n| format!("{}={n}", tag(&column.name))));
                    }
                }
            }
            if only_words {
                // An event without a measured value. It can still be counted.
                fields.push("n=1i".to_owned());
            }
            if fields.is_empty() {
                continue;
            }
            let at = about.start_unix_ns.saturating_add(t_ns);
            writeln!(out, "{measurement}{tags} {} {at}", fields.join(","))?;
            rows += 1;
        }
    }
    out.flush()?;
    Ok(rows)
}

/// A row's lab time, nanoseconds, from `t_ns` or `t_s`.
fn time_ns(columns: &[Column], values: &[Values], row: usize) -> Option<i64> {
    let place = |name: &str| columns.iter().position(|column| column.name == name);
    if let Some(Values::Integer(times)) = place("t_ns").map(|at| &values[at]) {
        return times[row];
    }
    match place("t_s").map(|at| &values[at])? {
        Values::Float(times) => times[row].map(|s| (s * 1e9).round() as i64),
        Values::Integer(times) => times[row].map(|s| s.saturating_mul(1_000_000_000)),
        Values::Text(_) => None,
    }
}

/// A tag, its value or a field's name, escaped as the protocol has it.
fn tag(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace(',', "\\,")
        .replace('=', "\\=")
        .replace(' ', "\\ ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    struct Once(Vec<Column>, Option<Vec<Values>>);

    impl Source for Once {
        fn columns(&self) -> &[Column] {
            &self.0
        }
        fn next(&mut self) -> Result<Option<Vec<Values>>, Error> {
            Ok(self.1.take())
        }
    }

    #[test]
    fn lines_have_tags_fields_and_the_scenarios_time() {
        let columns = vec![
            Column::new("t_s", Kind::Float),
            Column::new("path", Kind::Text),
            Column::new("rtt_us", Kind::Float),
            Column::new("seq", Kind::Integer),
        ];
        let values = vec![
            Values::Float(vec![Some(1.5), Some(2.0), None]),
            Values::Text(vec![Some("a b,c".into()), None, None]),
            Values::Float(vec![Some(0.25), None, Some(1.0)]),
            Values::Integer(vec![Some(7), None, Some(9)]),
        ];
        let about = About {
            table: "ping".into(),
            lab: "my lab".into(),
            seed: 1,
            start_unix_ns: 10,
        };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let rows = influx(
            &mut Once(columns, Some(values)),
            &about,
            File::create(&path).unwrap(),
        );
        assert!(matches!(rows, Ok(1)));
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(
            text,
            "constel_flow,lab=my\\ lab,flow=ping,path=a\\ b\\,c rtt_us=0.25,seq=7i 1500000010\n"
        );
    }
}
