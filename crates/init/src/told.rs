//! The documents in which a node receives its topology: reading them and waiting for changes.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use serde_json::{Map, Value, json};

use crate::error::Fault;

/// The folder with a node's documents.
#[derive(Debug)]
pub(crate) struct Documents {
    folder: PathBuf,
    changes: OwnedFd,
}

impl Documents {
    /// Watches the folder, which need not exist yet; its parent must exist.
    pub(crate) fn at(folder: &Path) -> Result<Self, Fault> {
        let flags = CreateFlags::CLOEXEC | CreateFlags::NONBLOCK;
        let told = Self {
            folder: folder.to_owned(),
            changes: inotify::init(flags).map_err(Fault::io("watch for changes"))?,
        };
        told.watch()?;
        Ok(told)
    }

    /// Watches all folders that exist by now. Watching a folder a second time has no effect.
    fn watch(&self) -> Result<(), Fault> {
        let parent = self.folder.parent().unwrap_or(Path::new("/"));
        for folder in [parent, &self.folder, &self.folder.join("user")] {
            // Writers replace a document atomically, by renaming another file onto it.
            let news = WatchFlags::MOVED_TO | WatchFlags::CREATE | WatchFlags::DELETE;
            let news = news | WatchFlags::ONLYDIR;
            match inotify::add_watch(&self.changes, folder, news) {
                Ok(_) | Err(Errno::NOENT) => {}
                Err(error) => {
                    return Err(Fault::io(format!("watch {}", folder.display()))(error));
                }
            }
        }
        Ok(())
    }

    /// A descriptor that becomes readable when a document may have changed.
    pub(crate) fn changes(&self) -> BorrowedFd<'_> {
        self.changes.as_fd()
    }

    /// Drains the events that made [`Documents::changes`] readable. Events from now on make it readable again.
    pub(crate) fn drain_changes(&self) -> Result<(), Fault> {
        let mut buffer = [0; 4096];
        loop {
            match rustix::io::read(&self.changes, &mut buffer[..]) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return self.watch(),
                Err(error) => return Err(Fault::io("hear of changes")(error)),
            }
        }
    }

    /// Reads all documents; `None` until every document exists.
    pub(crate) fn read(&self) -> Result<Option<Value>, Fault> {
        let mut all = Map::new();
        for name in ["node", "ports", "peers", "topology"] {
            let document = self.folder.join(format!("{name}.json"));
            let Some(text) = text(&document)? else {
                return Ok(None);
            };
            let value: Value = serde_json::from_str(&text)
                .map_err(|source| Fault::Document { document, source })?;
            // The documents `ports` and `peers` wrap a list in a key of their own name.
            let value = match value.get(name) {
                Some(list) => list.clone(),
                None => value,
            };
            all.insert(name.to_owned(), value);
        }
        all.insert("user".to_owned(), self.user()?);
        Ok(Some(Value::Object(all)))
    }

    /// Reads the user's own files, by name.
    fn user(&self) -> Result<Value, Fault> {
        let folder = self.folder.join("user");
        let doing = || format!("read {}", folder.display());
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(json!({})),
            Err(error) => return Err(Fault::io(doing())(error)),
        };
        let mut all = Map::new();
        for entry in entries {
            let entry = entry.map_err(Fault::io(doing()))?;
            // The file may have been deleted since; its deletion causes the next event.
            if let (Ok(name), Some(text)) = (entry.file_name().into_string(), text(&entry.path())?)
            {
                all.insert(name, Value::String(text));
            }
        }
        Ok(Value::Object(all))
    }
}

fn text(file: &Path) -> Result<Option<String>, Fault> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Fault::io(format!("read {}", file.display()))(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_read_until_all_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("constel");
        let told = Documents::at(&folder).unwrap();
        fs::create_dir_all(folder.join("user")).unwrap();
        told.drain_changes().unwrap();
        for (name, text) in [
            ("node", r#"{"name": "tokyo"}"#),
            ("ports", r#"{"ports": [{"name": "gsl0"}]}"#),
            ("peers", r#"{"revision": 3, "peers": []}"#),
        ] {
            assert_eq!(told.read().unwrap(), None, "before {name}");
            fs::write(folder.join(format!("{name}.json")), text).unwrap();
        }
        fs::write(folder.join("topology.json"), r#"{"links": []}"#).unwrap();
        fs::write(folder.join("user/as"), "65001").unwrap();
        let all = told.read().unwrap().unwrap();
        assert_eq!(
            all,
            json!({
                "node": {"name": "tokyo"},
                "ports": [{"name": "gsl0"}],
                "peers": [],
                "topology": {"links": []},
                "user": {"as": "65001"},
            })
        );
        fs::write(folder.join("peers.json"), "half a docu").unwrap();
        let said = told.read().unwrap_err().to_string();
        assert!(said.contains("peers.json"), "{said}");
    }
}
