//! Extended headers of the POSIX format.

use std::collections::BTreeSet;

use super::fields::whole_number;
use crate::image::error::{EntryFault, Fault};

const XATTR: &str = "SCHILY.xattr.";
/// Maximum length of an attribute's name and value, as in the kernel.
const MOST_NAME: usize = 255;
const MOST_VALUE: usize = 65536;

/// Keywords with their values, in the order of the archive.
#[derive(Debug, Default)]
pub(super) struct Records(Vec<(String, Vec<u8>)>);

impl Records {
    /// Parses `LENGTH KEYWORD=VALUE
    /// `, where the length counts the whole record.
    pub(super) fn parse(mut bytes: &[u8]) -> Result<Self, Fault> {
        let bad = || Fault::damaged("an extended header is malformed");
        let mut records = Vec::new();
        while !bytes.is_empty() {
            let space = bytes.iter().take(20).position(|b| *b == b' ');
            let space = space.ok_or_else(bad)?;
            let length = whole_number(&bytes[..space]).ok_or_else(bad)?;
            let length = usize::try_from(length).map_err(|_| bad())?;
            let record = bytes.get(space + 1..length).ok_or_else(bad)?;
            let record = record.strip_suffix(b"\n").ok_or_else(bad)?;
            let equals = record.iter().position(|b| *b == b'=').ok_or_else(bad)?;
            let key = std::str::from_utf8(&record[..equals]).map_err(|_| bad())?;
            records.push((key.to_owned(), record[equals + 1..].to_vec()));
            bytes = &bytes[length..];
        }
        Ok(Self(records))
    }

    /// Returns the last value of a keyword; an empty value cancels earlier ones.
    pub(super) fn get(&self, key: &str) -> Option<&[u8]> {
        let last = self.0.iter().rev().find(|(k, _)| k == key);
        last.map(|(_, value)| value.as_slice())
            .filter(|value| !value.is_empty())
    }

    /// Returns all records, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_slice()))
    }

    /// Checks a global header: only comments are accepted, as `git archive` writes them. Programs disagree about other
    /// keywords.
    pub(super) fn check_global(&self) -> Result<(), Fault> {
        match self.0.iter().find(|(key, _)| key != "comment") {
            None => Ok(()),
            Some((key, _)) => {
                let key = crate::image::error::shown(key.as_bytes());
                Err(Fault::damaged(format!(
                    "a global header sets '{key}' for all entries"
                )))
            }
        }
    }

    /// Returns extended attributes by name; for a repeated name, the last value.
    pub(super) fn xattrs(&self, path: &[u8]) -> Result<Vec<(String, Vec<u8>)>, Fault> {
        let mut xattrs = std::collections::BTreeMap::new();
        for (key, value) in &self.0 {
            let Some(name) = key.strip_prefix(XATTR) else {
                continue;
            };
            let refuse = |why| Err(Fault::entry(path, why));
            if name.starts_with("trusted.overlay.") || name.starts_with("user.overlay.") {
                return refuse(EntryFault::OverlayMark(crate::image::error::shown(
                    name.as_bytes(),
                )));
            }
            let good = !name.is_empty() && name.len() <= MOST_NAME && !name.contains('\0');
            if !good || value.len() > MOST_VALUE {
                return refuse(EntryFault::OutOfRange("extended attribute"));
            }
            xattrs.insert(name.to_owned(), value.clone());
        }
        Ok(xattrs.into_iter().collect())
    }

    /// Collects the kinds of metadata that an image does not keep.
    pub(super) fn collect_left_out(&self, into: &mut BTreeSet<String>) {
        for (key, _) in &self.0 {
            if key.starts_with("SCHILY.acl.") || key == "SCHILY.fflags" {
                into.insert(key.clone());
            }
        }
    }
}
