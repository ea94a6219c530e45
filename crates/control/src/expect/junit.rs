//! Reports in JUnit's XML, as Jenkins, GitLab and others read it.

use std::fmt::Write;

/// A run of a scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct Suite {
    /// The scenario's name and seed.
    pub name: String,
    /// The scenario file.
    pub file: String,
    /// How long it took, seconds.
    pub took_s: f64,
    /// Path of the results.
    pub results: String,
    /// Its statements.
    pub cases: Vec<Case>,
}

/// A statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// The requirement that the statement verifies.
    pub requirement: Option<String>,
    /// The line of the statement. `None` for failed software without a statement about it.
    pub line: Option<u32>,
    /// The outcome.
    pub end: CaseEnd,
}

/// The outcome of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CaseEnd {
    /// It holds. Contains the observed value.
    Passed(String),
    /// It does not hold. Contains the observed value.
    Failed(String),
    /// Unknown: the measurements that it needs are not trustworthy, or the run was interrupted.
    Unknown(String),
    /// The run came to nothing.
    Error(String),
}

/// The report.
#[must_use]
pub fn junit(suites: &[Suite]) -> String {
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for suite in suites {
        let count =
            |is: fn(&CaseEnd) -> bool| suite.cases.iter().filter(|case| is(&case.end)).count();
        // Writing to a string cannot fail.
        let _ = writeln!(
            xml,
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3}\">",
            escaped(&suite.name),
            suite.cases.len(),
            count(|end| matches!(end, CaseEnd::Failed(_))),
            count(|end| matches!(end, CaseEnd::Error(_))),
            count(|end| matches!(end, CaseEnd::Unknown(_))),
            suite.took_s,
        );
        xml.push_str("    <properties>\n");
        property(&mut xml, "file", &suite.file);
        property(&mut xml, "results", &suite.results);
        for case in &suite.cases {
            if let Some(requirement) = &case.requirement {
                property(&mut xml, &format!("requirement:{}", case.name), requirement);
            }
        }
        xml.push_str("    </properties>\n");
        for case in &suite.cases {
            written(&mut xml, suite, case);
        }
        xml.push_str("  </testsuite>\n");
    }
    xml.push_str("</testsuites>\n");
    xml
}

fn property(xml: &mut String, name: &str, value: &str) {
    let (name, value) = (escaped(name), escaped(value));
    let _ = writeln!(xml, "      <property name=\"{name}\" value=\"{value}\"/>");
}

fn written(xml: &mut String, suite: &Suite, case: &Case) {
    let _ = write!(
        xml,
        "    <testcase name=\"{}\" classname=\"{}\" time=\"{:.3}\">",
        escaped(&case.name),
        escaped(&suite.name),
        suite.took_s,
    );
    let line = case.line.map_or(String::new(), |line| format!(":{line}"));
    let place = format!("{}{line}", suite.file);
    let (tag, message) = match &case.end {
        CaseEnd::Passed(seen) => {
            let _ = writeln!(xml, "<system-out>{}</system-out></testcase>", escaped(seen));
            return;
        }
        CaseEnd::Failed(seen) => ("failure", seen),
        CaseEnd::Unknown(why) => ("skipped", why),
        CaseEnd::Error(why) => ("error", why),
    };
    let kind = if tag == "skipped" {
        ""
    } else {
        " type=\"expectation\""
    };
    let _ = writeln!(
        xml,
        "<{tag} message=\"{}\"{kind}>{}</{tag}></testcase>",
        escaped(message),
        escaped(&format!("{place}: {message}\nresults: {}", suite.results)),
    );
}

/// Prepares text for text and attributes of XML 1.0. Characters that XML does not allow become U+FFFD.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
