//! The host's files that a service sees.

use constel_scenario::yaml::{Node, Value};

use super::Of;
use crate::draft::Volume;
use crate::text::shown;

impl<'p> Of<'p, '_> {
    pub(super) fn volumes(&mut self) -> Vec<Volume> {
        let Some(node) = self.take("volumes") else {
            return Vec::new();
        };
        let what = self.key("volumes");
        let mut all: Vec<Volume> = Vec::new();
        for node in self.project.reader.list(node, &what) {
            let said = match &node.value {
                Value::Mapping(_) => self.long_volume(node, &what),
                _ => self.short_volume(node, &what),
            };
            let Some(volume) = said else {
                continue;
            };
            let reason = match volume.host.as_str() {
                host if host.starts_with('~') => {
                    "`~` is the home folder of the user that runs Compose; nodes have no such user"
                }
                host if host.ends_with(".sock") => "a socket of the host would lead out of the lab",
                _ if all.iter().any(|other| other.at == volume.at) => {
                    "something else is mounted there"
                }
                _ => {
                    all.push(volume);
                    continue;
                }
            };
            let (host, at) = (shown(&volume.host), shown(&volume.at));
            self.note_of(&format!("volumes.{host}:{at}"), reason);
        }
        all
    }

    fn short_volume(&mut self, node: &Node, what: &str) -> Option<Volume> {
        let text = self.project.reader.text(node, what)?;
        let mut parts = text.split(':');
        let (first, second, mode) = (parts.next()?, parts.next(), parts.next());
        if parts.next().is_some() {
            let reason = format!("{what}: `{}` is no SOURCE:TARGET[:MODE]", shown(&text));
            self.project.reader.wrong(node, reason);
            return None;
        }
        let read_only = mode.is_some_and(|mode| mode.split(',').any(|word| word == "ro"));
        match second {
            Some(at) if first.starts_with(['.', '/', '~']) => Some(Volume {
                host: first.to_owned(),
                at: at.to_owned(),
                read_only,
            }),
            _ => {
                self.named_volume(first);
                None
            }
        }
    }

    fn long_volume(&mut self, node: &'p Node, what: &str) -> Option<Volume> {
        let mut map = self.project.reader.map(node, what);
        let mut text = |key: &str| {
            let node = map.take(key)?;
            self.project.reader.text(node, what)
        };
        let (kind, source, target) = (text("type"), text("source"), text("target"));
        let read_only = map.take("read_only");
        let read_only = read_only.is_some_and(|node| self.project.reader.yes(node, what));
        match (kind.as_deref(), source, target) {
            (Some("bind"), Some(host), Some(at)) => Some(Volume {
                host,
                at,
                read_only,
            }),
            (Some("bind"), ..) | (None, ..) => {
                let reason = format!("{what}: a volume has `type`, `source` and `target`");
                self.project.reader.wrong(node, reason);
                None
            }
            (_, source, target) => {
                let name = source.or(target).unwrap_or_default();
                self.named_volume(&name);
                None
            }
        }
    }

    fn named_volume(&mut self, name: &str) {
        let key = format!("volumes.{}", shown(name));
        self.note_of(&key, "nothing is kept from one lab to the next; what is written is in memory, or with `state: disk` in the results");
    }
}
