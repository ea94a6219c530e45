//! NIST Net's rows, as `cnistnet -R` prints them and `cnistnet -a` takes them, as rules of a box.
//!
//! ```text
//! cnistnet -a SRC[:PORT[.PROTOCOL]] DST[:PORT[.PROTOCOL]] [COS] [add new]
//!     --delay MS [SIGMA[/CORRELATION]] --drop PERCENT[/CORRELATION] --dup PERCENT[/CORRELATION]
//!     --bandwidth BYTES_PER_SECOND --drd MIN MAX [CONGEST]
//! ```

use serde_json::{Map, Value, json};

use crate::text::{ReadError, ReadErrors};

/// Rows as rules, and notes on the differences.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// A file of rules, as a value.
    pub file: Value,
    /// The line of the row from which each rule comes, from 1.
    pub lines: Vec<usize>,
    /// Notes on settings that could not be carried over or have another meaning, in words.
    pub notes: Vec<String>,
}

/// Reads rows; empty lines, comments from `#` on, and `cnistnet`'s other switches (`-u`, `-d`) are ignored. A row may have the
/// program before it, with its path or after other words (`sudo cnistnet -a`).
///
/// NIST Net keeps its rows in a table: a row with the key of an earlier one replaces it, and of several rows that match a packet
/// the most specific one holds. A box takes the first rule that matches, so rules are in order from specific to general.
///
/// # Errors
/// Every invalid row.
pub fn parse(text: &str) -> Result<Imported, ReadErrors> {
    let (mut rows, mut notes, mut errors) = (Vec::<Row>::new(), Vec::new(), Vec::new());
    let mut read = 0;
    for (n, line) in text.lines().enumerate() {
        let line_number = n + 1;
        let words = line.split('#').next().unwrap_or("").split_whitespace();
        let words: Vec<&str> = words.collect();
        let program = words.iter().position(|word| word.ends_with("cnistnet"));
        let words = &words[program.map_or(0, |program| program + 1)..];
        if words.is_empty() {
            continue;
        }
        let words = match words {
            ["-a" | "--add", rest @ ..] => rest,
            []
            | [
                "-u" | "-d" | "-R" | "-F" | "-n" | "-s" | "-G" | "-S" | "-r",
                ..,
            ] => continue,
            rest => rest,
        };
        match row(words) {
            Ok(row) => {
                read += 1;
                let row = Row {
                    number: read,
                    line: line_number,
                    ..row
                };
                match rows.iter_mut().find(|known| known.key() == row.key()) {
                    Some(known) => {
                        notes.push(format!(
                            "row-{} is left out: row-{read} has the same addresses, ports, protocol and class, and replaces it",
                            known.number
                        ));
                        *known = row;
                    }
                    None => rows.push(row),
                }
            }
            Err(reason) => errors.push(ReadError {
                line: line_number,
                reason,
            }),
        }
    }
    if errors.is_empty() && rows.is_empty() {
        errors.push(ReadError {
            line: 1,
            reason: "there is no row in it: `cnistnet -R` prints them".to_owned(),
        });
    }
    if !errors.is_empty() {
        return Err(ReadErrors(errors));
    }
    rows.sort_by_key(|row| (std::cmp::Reverse(row.specificity()), row.number));
    if !rows.is_sorted_by_key(|row| row.number) {
        let order: Vec<String> = rows
            .iter()
            .map(|row| format!("row-{}", row.number))
            .collect();
        notes.push(format!(
            "rows are in the order {}: the first rule that matches holds here, and in NIST Net the most specific row, the one \
             with most of addresses, ports, protocol and class; of equally specific ones that both match, the first in the file",
            order.join(", ")
        ));
    }
    let (mut rules, mut lines) = (Vec::new(), Vec::new());
    for row in &rows {
        row.to_rules(&mut rules, &mut notes);
        lines.resize(rules.len(), row.line);
    }
    Ok(Imported {
        file: json!({ "rules": rules }),
        lines,
        notes,
    })
}

/// One end of a row.
#[derive(Debug, Default, PartialEq)]
struct End {
    address: Option<String>,
    port: Option<u16>,
    protocol: Option<String>,
}

#[derive(Debug, Default, PartialEq)]
struct Row {
    /// The row's number in the file, from 1.
    number: usize,
    /// The row's line, from 1.
    line: usize,
    src: End,
    dst: End,
    class: Option<u8>,
    delay_ms: f64,
    sigma_ms: f64,
    drop_percent: f64,
    duplicate_percent: f64,
    bandwidth: u64,
    drd: Option<(u32, u32)>,
    congest: bool,
    /// Effects that were given with a correlation.
    correlated: Vec<&'static str>,
}

fn end(text: &str) -> Result<End, String> {
    let wrong = || {
        format!(
            "`{text}` is not an address, with a port and a protocol if need be: `10.0.0.1:80.tcp`"
        )
    };
    let (address, rest) = match text.split_once(':') {
        Some((address, rest)) => (address, Some(rest)),
        None => (text, None),
    };
    let address: std::net::Ipv4Addr = address.parse().map_err(|_| wrong())?;
    let (port, protocol) = match rest.map(|rest| rest.split_once('.')) {
        None => (None, None),
        Some(None) => (rest, None),
        Some(Some((port, protocol))) => (Some(port), Some(protocol)),
    };
    let port = port.filter(|port| !port.is_empty());
    let port = port.map(|port| port.parse::<u16>().map_err(|_| wrong()));
    Ok(End {
        // NIST Net's zeros are anything.
        address: (!address.is_unspecified()).then(|| address.to_string()),
        port: port.transpose()?.filter(|port| *port != 0),
        protocol: protocol
            .filter(|p| !p.is_empty() && *p != "0" && *p != "ip")
            .map(str::to_lowercase),
    })
}

fn row(words: &[&str]) -> Result<Row, String> {
    let [src, dst, rest @ ..] = words else {
        return Err("a row begins with a source and a destination address".to_owned());
    };
    let mut row = Row {
        src: end(src)?,
        dst: end(dst)?,
        ..Row::default()
    };
    if let (Some(from), Some(to)) = (&row.src.protocol, &row.dst.protocol)
        && from != to
    {
        return Err(format!("the ends have two protocols, {from} and {to}"));
    }
    let mut rest = rest;
    if let [class, after @ ..] = rest
        && let Ok(class) = class.parse::<u8>()
    {
        row.class = Some(class).filter(|class| *class != 0);
        rest = after;
    }
    if let ["add", "new", after @ ..] | ["add", after @ ..] = rest {
        rest = after;
    }
    while let [switch, after @ ..] = rest {
        let values = after.iter().take_while(|word| !word.starts_with("--"));
        let values: Vec<&str> = values.flat_map(|word| word.split('/')).collect();
        let skip = after
            .iter()
            .take_while(|word| !word.starts_with("--"))
            .count();
        row.effect(switch, &values)?;
        rest = &after[skip..];
    }
    Ok(row)
}

fn number(switch: &str, values: &[&str], place: usize) -> Result<f64, String> {
    let text = values.get(place).map(|text| text.trim_end_matches('%'));
    let Some(text) = text else {
        return Err(format!("{switch} has no value"));
    };
    let number = text.parse::<f64>().ok();
    number
        .filter(|number| number.is_finite() && *number >= 0.0)
        .ok_or_else(|| format!("`{text}` of {switch} is no number from 0 on"))
}

/// A whole number, as NIST Net's tools read these values: they cut a fraction off, and 0 means none.
fn whole<T: TryFrom<u64>>(switch: &str, values: &[&str], place: usize) -> Result<T, String> {
    let number = number(switch, values, place)?;
    let whole = (number.fract() == 0.0 && number < 1e18).then_some(number as u64);
    whole
        .and_then(|whole| T::try_from(whole).ok())
        .ok_or_else(|| {
            format!(
                "`{}` of {switch} is no whole number in range",
                values[place]
            )
        })
}

impl Row {
    /// Returns the match of the row's rule.
    fn key(&self) -> Map<String, Value> {
        matching(&self.src, &self.dst, self.class)
    }

    /// Returns the number of fields of a packet that must match. A row that matches fewer packets than another
    /// has a higher number.
    fn specificity(&self) -> usize {
        self.key().len()
    }

    fn effect(&mut self, switch: &str, values: &[&str]) -> Result<(), String> {
        let at = |place| number(switch, values, place);
        let or_none = |place| {
            if values.len() > place {
                at(place)
            } else {
                Ok(0.0)
            }
        };
        let percent = |place| match at(place)? {
            percent if percent <= 100.0 => Ok(percent),
            percent => Err(format!("{switch} {percent}: at most 100 %")),
        };
        let (correlation, name) = match switch {
            "--delay" => {
                (self.delay_ms, self.sigma_ms) = (at(0)?, or_none(1)?);
                (or_none(2)?, "delay")
            }
            "--drop" => {
                self.drop_percent = percent(0)?;
                (or_none(1)?, "drop")
            }
            "--dup" => {
                self.duplicate_percent = percent(0)?;
                (or_none(1)?, "dup")
            }
            "--bandwidth" => {
                self.bandwidth = whole(switch, values, 0)?;
                (0.0, "")
            }
            "--drd" => {
                let (min, max): (u32, u32) = (whole(switch, values, 0)?, whole(switch, values, 1)?);
                if min > max {
                    return Err(format!(
                        "{switch} {min} {max}: the second number is not below the first"
                    ));
                }
                self.drd = (max > 0).then_some((min, max));
                self.congest = or_none(2)? > 0.0;
                (0.0, "")
            }
            other => {
                return Err(format!(
                    "`{other}` is unknown; allowed are --delay, --drop, --dup, --bandwidth, --drd"
                ));
            }
        };
        if correlation != 0.0 {
            self.correlated.push(name);
        }
        Ok(())
    }

    /// A row matches packets from one address to another, on any ingress interface: there is a rule for each
    /// direction.
    fn to_rules(&self, rules: &mut Vec<Value>, notes: &mut Vec<String>) {
        let name = format!("row-{}", self.number);
        let path = self.path(&name, notes);
        for effect in &self.correlated {
            notes.push(format!(
                "{name}: the correlation of --{effect} is left out; here each frame is drawn by itself (`loss_law` and \
                 `jitter.half_life` have laws with memory)"
            ));
        }
        if self.sigma_ms > 0.0 {
            notes.push(format!(
                "{name}: the delay varies as a mix of a normal and a Pareto distribution, and frames may overtake each \
                 other, as NIST Net's do (`jitter.order: hold` or `smooth` keeps them in order)"
            ));
        }
        let action = match path {
            path if path.is_empty() => json!("pass"),
            _ if self.drop_percent >= 100.0 => json!("drop"),
            path => Value::Object(path),
        };
        let forward = matching(&self.src, &self.dst, self.class);
        let back = matching(&self.dst, &self.src, self.class);
        for (name, matching, way) in [
            (name.clone(), forward, "forward"),
            (format!("{name}-back"), back, "reverse"),
        ] {
            let mut rule = Map::new();
            rule.insert("name".to_owned(), json!(name));
            if !matching.is_empty() {
                rule.insert("match".to_owned(), Value::Object(matching));
            }
            rule.insert(way.to_owned(), action.clone());
            rules.push(Value::Object(rule));
        }
    }

    fn path(&self, name: &str, notes: &mut Vec<String>) -> Map<String, Value> {
        let mut path = Map::new();
        let mut set = |key: &str, value: Value| {
            path.insert(key.to_owned(), value);
        };
        if self.delay_ms > 0.0 {
            set("delay", json!(format!("{} ms", self.delay_ms)));
        }
        if self.sigma_ms > 0.0 {
            set(
                "jitter",
                json!({"pareto_normal": format!("{} ms", self.sigma_ms), "order": "overtake"}),
            );
        }
        if self.drop_percent > 0.0 && self.drop_percent < 100.0 {
            set("loss", json!(format!("{} %", self.drop_percent)));
        }
        if self.drop_percent >= 100.0 {
            set("loss", json!("100 %"));
        }
        if self.duplicate_percent > 0.0 {
            set("duplicate", json!(format!("{} %", self.duplicate_percent)));
        }
        if self.bandwidth > 0 {
            set("rate", json!(format!("{} bit/s", self.bandwidth * 8)));
            set("queue", json!("1 GiB"));
            notes.push(format!(
                "{name}: {} bytes/s count Ethernet headers here, which NIST Net's do not; the queue is 1 GiB, as NIST Net's \
                 has no bound",
                self.bandwidth
            ));
        }
        match self.drd {
            Some((min, max)) if self.bandwidth > 0 => {
                let mut drd = json!({"min_frames": min, "max_frames": max.max(min.saturating_add(1))});
                if self.congest {
                    drd["ecn"] = json!(true);
                }
                set("aqm", json!({ "drd": drd }));
            }
            Some(_) => notes.push(format!(
                "{name}: --drd is left out: without --bandwidth no frame waits here (NIST Net counts those it delays)"
            )),
            None => {}
        }
        path
    }
}

fn matching(src: &End, dst: &End, class: Option<u8>) -> Map<String, Value> {
    let mut matching = Map::new();
    let mut set = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            matching.insert(key.to_owned(), value);
        }
    };
    set("src", src.address.as_ref().map(|a| json!(a)));
    set("dst", dst.address.as_ref().map(|a| json!(a)));
    let protocol = src.protocol.as_ref().or(dst.protocol.as_ref());
    set("protocol", protocol.map(|p| json!(p)));
    set("sport", src.port.map(|p| json!(p.to_string())));
    set("dport", dst.port.map(|p| json!(p.to_string())));
    set("traffic_class", class.map(|c| json!(c.to_string())));
    matching
}

/// A file of rules in the form that people write.
#[must_use]
pub fn yaml(file: &Value) -> String {
    let mut text = String::new();
    for (key, value) in file.as_object().into_iter().flatten() {
        match value {
            Value::Array(rules) if !rules.is_empty() => {
                text.push_str(&format!("{key}:\n"));
                for rule in rules {
                    for (n, (key, value)) in rule.as_object().into_iter().flatten().enumerate() {
                        let begin = if n == 0 { "- " } else { "  " };
                        text.push_str(&format!("{begin}{key}: {}\n", flow(value)));
                    }
                }
            }
            value => text.push_str(&format!("{key}: {}\n", flow(value))),
        }
    }
    text
}

/// On one line.
fn flow(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let entries = map
                .iter()
                .map(|(key, value)| format!("{key}: {}", flow(value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => {
            format!(
                "[{}]",
                items.iter().map(flow).collect::<Vec<_>>().join(", ")
            )
        }
        Value::String(text) => {
            let plain = |c: char| c.is_ascii_alphanumeric() || "_./% -".contains(c);
            let begins = text.starts_with(|c: char| c.is_ascii_alphanumeric());
            if begins && text.chars().all(plain) && !text.ends_with(' ') {
                text.clone()
            } else {
                value.to_string()
            }
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_becomes_a_rule_for_each_way() {
        let text = "# rows\ncnistnet -u\n\
             cnistnet -a 10.0.0.1:80.tcp 10.0.1.0 8 add new --delay 100.5 10/0.5 --drop 1.25 --dup 0.5/0.1 --bandwidth 125000 --drd 10 50\n\
             0.0.0.0 0.0.0.0 --drop 100\n";
        let imported = parse(text).unwrap();
        let written = yaml(&imported.file);
        let expected = "rules:\n\
             - name: row-1\n  \
               match: {src: 10.0.0.1, dst: 10.0.1.0, protocol: tcp, sport: 80, traffic_class: 8}\n  \
               forward: {delay: 100.5 ms, jitter: {pareto_normal: 10 ms, order: overtake}, loss: 1.25 %, duplicate: 0.5 %, rate: 1000000 bit/s, queue: 1 GiB, aqm: {drd: {min_frames: 10, max_frames: 50}}}\n\
             - name: row-1-back\n  \
               match: {src: 10.0.1.0, dst: 10.0.0.1, protocol: tcp, dport: 80, traffic_class: 8}\n  \
               reverse: {delay: 100.5 ms, jitter: {pareto_normal: 10 ms, order: overtake}, loss: 1.25 %, duplicate: 0.5 %, rate: 1000000 bit/s, queue: 1 GiB, aqm: {drd: {min_frames: 10, max_frames: 50}}}\n\
             - name: row-2\n  \
               forward: drop\n\
             - name: row-2-back\n  \
               reverse: drop\n";
        assert_eq!(written, expected);
        assert_eq!(imported.notes.len(), 4, "{:#?}", imported.notes);
        let file = constel_scenario::read_rules(
            "nistnet",
            written.as_bytes(),
            &constel_scenario::DiskFiles::in_folder("."),
        );
        assert_eq!(file.unwrap().rules.len(), 4);
    }

    #[test]
    fn a_row_may_stand_in_a_command_with_a_comment() {
        let row = "10.0.0.1 10.0.0.2 --delay 10";
        let plain = parse(row).unwrap();
        for text in [
            format!("sudo /usr/local/bin/cnistnet -a {row} # ten"),
            format!("#!/bin/sh\r\ncnistnet -u\r\n  ./cnistnet --add {row}\r\n"),
        ] {
            let read = parse(&text).unwrap_or_else(|errors| panic!("{text}: {errors}"));
            assert_eq!(read.file, plain.file, "{text}");
        }
        let many = parse("10.0.0.1 10.0.0.2 --delay 1\n\n0.0.0.0 10.0.0.2 --delay 2\n").unwrap();
        assert_eq!(many.lines, [1, 1, 3, 3]);
    }

    /// The rules of a text by name, in order.
    fn names(text: &str) -> (Vec<String>, Vec<String>) {
        let imported = parse(text).unwrap();
        let rules = imported.file["rules"].as_array().unwrap().iter();
        let names = rules.map(|rule| rule["name"].as_str().unwrap().to_owned());
        (names.collect(), imported.notes)
    }

    #[test]
    fn a_catch_all_row_comes_last_and_of_equal_keys_the_later_row_holds() {
        let text = "0.0.0.0 0.0.0.0 --delay 1\n10.0.0.1 10.0.0.2 --delay 2\n10.0.0.1 0.0.0.0 --delay 3\n\
                    10.0.0.1:80.tcp 10.0.0.2 --delay 4\n10.0.0.1 10.0.0.2 --delay 5\n";
        let (names, notes) = names(text);
        let expected = ["row-4", "row-5", "row-3", "row-1"];
        let expected = expected.map(|row| [row.to_owned(), format!("{row}-back")]);
        assert_eq!(names, expected.concat());
        assert!(
            notes
                .iter()
                .any(|note| note.starts_with("row-2 is left out: row-5 has the same")),
            "{notes:#?}"
        );
        assert!(
            notes
                .iter()
                .any(|note| note.starts_with("rows are in the order row-4, row-5, row-3, row-1")),
            "{notes:#?}"
        );
    }

    proptest::proptest! {
        /// No rule stands behind one that matches all that it matches.
        #[test]
        fn no_row_hides_another(rows in proptest::collection::vec((0..3u8, 0..3u8, 0..3u16, 0..3u16, 0..3usize, 0..3u8), 1..12)) {
            let address = |n: u8| match n {
                0 => "0.0.0.0".to_owned(),
                n => format!("10.0.0.{n}"),
            };
            let end = |n: u8, port: u16, protocol: &str| match (port, protocol) {
                (0, "") => address(n),
                _ => format!("{}:{port}.{protocol}", address(n)),
            };
            let text: String = rows.iter().map(|(src, dst, sport, dport, protocol, class)| {
                let protocol = ["", "tcp", "udp"][*protocol];
                format!("{} {} {class} --delay 1\n", end(*src, *sport, protocol), end(*dst, *dport, protocol))
            }).collect();
            let file = parse(&text).unwrap().file;
            let rules = file["rules"].as_array().unwrap();
            let matches = |rule: &Value| rule["match"].as_object().cloned().unwrap_or_default();
            for (n, later) in rules.iter().enumerate() {
                for earlier in rules[..n].iter().filter(|earlier| earlier.get("forward").is_some() == later.get("forward").is_some()) {
                    let (earlier, later) = (matches(earlier), matches(later));
                    let hidden = earlier.iter().all(|(key, value)| later.get(key) == Some(value));
                    proptest::prop_assert!(!hidden, "{earlier:?} hides {later:?}");
                }
            }
        }
    }

    #[test]
    fn every_wrong_row_is_named() {
        let errors = parse("10.0.0.1\n10.0.0.1 10.0.0.2 --delay\nx y\n10.0.0.1 10.0.0.2 --drop 101 \n1.2.3.4 1.2.3.5 --jitter 3\n").unwrap_err();
        let lines: Vec<usize> = errors.0.iter().map(|e| e.line).collect();
        assert_eq!(lines, [1, 2, 3, 4, 5]);
        // Values that would be cut off or changed: half a byte a second is not "without limit".
        for (row, words) in [
            ("10.0.0.1 10.0.0.2 --bandwidth 0.5", "`0.5` of --bandwidth"),
            (
                "10.0.0.1 10.0.0.2 --bandwidth 1e30",
                "`1e30` of --bandwidth",
            ),
            (
                "10.0.0.1 10.0.0.2 --bandwidth 9 --drd 5 2",
                "--drd 5 2: the second",
            ),
            (
                "10.0.0.1 10.0.0.2 --bandwidth 9 --drd 1 5e9",
                "`5e9` of --drd",
            ),
            (
                "10.0.0.1:5.udp 10.0.0.2:80.tcp --delay 1",
                "two protocols, udp and tcp",
            ),
        ] {
            let errors = parse(row).unwrap_err().to_string();
            assert!(errors.contains(words), "{row}: {errors}");
        }
        assert!(parse("\n# nothing\n").is_err());
    }
}
