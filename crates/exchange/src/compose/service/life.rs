//! How a service's program is started again, looked after and ended.

use constel_scenario::yaml::{Node, Value};

use super::Of;
use crate::compose::words::milliseconds;
use crate::draft::{Health, Software};
use crate::text::shown;

impl Of<'_, '_> {
    pub(super) fn restart(&mut self, software: &mut Software) {
        let Some(node) = self.take("restart") else {
            return;
        };
        let what = self.key("restart");
        let Some(text) = self.project.reader.text(node, &what) else {
            return;
        };
        let (word, times) = text
            .split_once(':')
            .map_or((text.as_str(), None), |(word, times)| (word, Some(times)));
        software.restart = match word {
            "no" | "false" => None,
            "always" | "unless-stopped" => Some("always"),
            "on-failure" => Some("on-failure"),
            _ => {
                let reason = format!(
                    "{what} is `{}`; allowed are no, always, unless-stopped and on-failure",
                    shown(&text)
                );
                self.project.reader.wrong(node, reason);
                None
            }
        };
        if let Some(times) = times {
            self.note_of(
                "restart",
                &format!(
                    "at most {} times: it is started again as often as it fails",
                    shown(times)
                ),
            );
            software.restart = Some("on-failure");
        }
    }

    pub(super) fn health(&mut self) -> Option<Health> {
        let node = self.take("healthcheck")?;
        let what = self.key("healthcheck");
        let mut map = self.project.reader.map(node, &what);
        if let Some(node) = map.take("disable")
            && self.project.reader.yes(node, &what)
        {
            return None;
        }
        let command = match map.take("test") {
            Some(node) => Some(self.health_command(node, &what)?),
            None => None,
        };
        let mut health = Health {
            command,
            ..Health::default()
        };
        let bounds = [("interval", 100), ("timeout", 10), ("start_period", 0)];
        for (key, least) in bounds {
            let node = map.take(key);
            let ms = self.time(&format!("healthcheck.{key}"), node, least..=3_600_000);
            // 0 is Compose's word for as long as usual.
            let ms = ms.filter(|ms| *ms > 0);
            health.times_ms.extend(ms.map(|ms| (key, ms)));
        }
        if let Some(node) = map.take("retries") {
            let retries = self.count_of("healthcheck.retries", node)?;
            health.retries = u32::try_from(retries).ok().filter(|retries| *retries > 0);
        }
        self.left(&map, "healthcheck", "checks have no such setting");
        Some(health)
    }

    /// Returns the command of the health check; `None` if the check is disabled or invalid.
    fn health_command(&mut self, node: &Node, what: &str) -> Option<Vec<String>> {
        let reader = &mut self.project.reader;
        let words: Vec<String> = match &node.value {
            Value::Sequence(list) => {
                let words = list.iter();
                words.filter_map(|node| reader.text(node, what)).collect()
            }
            _ => vec!["CMD-SHELL".to_owned(), reader.text(node, what)?],
        };
        let parts: Vec<&str> = words.iter().map(String::as_str).collect();
        match parts.as_slice() {
            ["NONE"] => None,
            ["CMD", _, ..] => Some(words[1..].to_vec()),
            ["CMD-SHELL", line] => Some(["/bin/sh", "-c", line].map(str::to_owned).into()),
            _ => {
                let reason = format!("{what}.test begins with none of NONE, CMD and CMD-SHELL");
                reader.wrong(node, reason);
                None
            }
        }
    }

    pub(super) fn stop(&mut self, software: &mut Software) {
        if let Some(signal) = self.text("stop_signal") {
            let upper = signal.to_ascii_uppercase();
            let word = upper.strip_prefix("SIG").unwrap_or(&upper);
            let known = [
                "HUP", "INT", "QUIT", "KILL", "USR1", "USR2", "TERM", "WINCH",
            ];
            match known.contains(&word) {
                true => software.stop_signal = Some(word.to_owned()),
                false => self.note_of(
                    "stop_signal",
                    "nodes end by HUP, INT, QUIT, KILL, USR1, USR2, TERM or WINCH",
                ),
            }
        }
        let node = self.take("stop_grace_period");
        software.stop_grace_ms = self.time("stop_grace_period", node, 0..=60_000);
    }

    /// A time within bounds, milliseconds; 0 is always within.
    fn time(
        &mut self,
        key: &str,
        node: Option<&Node>,
        range: std::ops::RangeInclusive<u64>,
    ) -> Option<u64> {
        let node = node?;
        let what = self.key(key);
        let text = self.project.reader.text(node, &what)?;
        let ms = milliseconds(&text).filter(|ms| *ms == 0 || range.contains(ms));
        if ms.is_none() {
            let (least, most) = (range.start(), range.end());
            let reason = format!(
                "{what} is `{}`, which is no time such as 1m30s from {least}ms to {most}ms",
                shown(&text)
            );
            self.project.reader.wrong(node, reason);
        }
        ms
    }
}
