//! Configuration files, rendered from templates.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use minijinja::{Environment, UndefinedBehavior};
use serde_json::Value;

use crate::error::Fault;

/// A template and the file that it is rendered to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    template: PathBuf,
    file: PathBuf,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((template, file)) if !template.is_empty() && !file.is_empty() => Ok(Self {
                template: template.into(),
                file: file.into(),
            }),
            _ => Err("it is TEMPLATE=FILE, two paths".to_owned()),
        }
    }
}

/// All of a node's files.
#[derive(Debug)]
pub(crate) struct Files {
    environment: Environment<'static>,
    targets: Vec<Target>,
}

impl Files {
    /// Reads the templates; they can `include` each other by their paths.
    pub(crate) fn read(targets: &[Target]) -> Result<Self, Fault> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.set_keep_trailing_newline(true);
        for Target { template, .. } in targets {
            let doing = format!("read {}", template.display());
            let text = fs::read_to_string(template).map_err(Fault::io(doing))?;
            let name = template.to_string_lossy().into_owned();
            environment
                .add_template_owned(name, text)
                .map_err(|error| Fault::template(template, &error))?;
        }
        Ok(Self {
            environment,
            targets: targets.to_vec(),
        })
    }

    /// Renders all files and replaces each one whose contents changed, atomically. Returns whether any file changed.
    pub(crate) fn write(&self, told: &Value) -> Result<bool, Fault> {
        let mut any = false;
        for Target { template, file } in &self.targets {
            let filled = self
                .environment
                .get_template(&template.to_string_lossy())
                .and_then(|one| one.render(told));
            let text = filled.map_err(|error| Fault::template(template, &error))?;
            if fs::read(file).is_ok_and(|old| old == text.as_bytes()) {
                continue;
            }
            replace(file, &text).map_err(Fault::io(format!("write {}", file.display())))?;
            any = true;
        }
        Ok(any)
    }
}

fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    let mut new = file.as_os_str().to_owned();
    new.push(".new");
    fs::write(&new, text)?;
    fs::rename(&new, file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn target(dir: &Path, text: &str) -> Target {
        let template = dir.join("x.j2");
        fs::write(&template, text).unwrap();
        let both = format!("{}={}", template.display(), dir.join("x").display());
        both.parse().unwrap()
    }

    #[test]
    fn files_are_written_when_they_become_others() {
        let dir = tempfile::tempdir().unwrap();
        let text = "{% for peer in peers %}\n{{ peer.node }} by {{ peer.port }}\n{% endfor %}\n";
        let files = Files::read(&[target(dir.path(), text)]).unwrap();
        let told = json!({"peers": [{"node": "a", "port": "gsl0"}]});
        assert!(files.write(&told).unwrap());
        let file = dir.path().join("x");
        assert_eq!(fs::read_to_string(&file).unwrap(), "a by gsl0\n");
        assert!(!files.write(&told).unwrap(), "it is what it was");
        assert!(files.write(&json!({"peers": []})).unwrap());
        assert_eq!(fs::read_to_string(&file).unwrap(), "");
    }

    #[test]
    fn faults_have_their_place() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::read(&[target(dir.path(), "fine\n{{ node.nmae }}\n")]).unwrap();
        let said = files.write(&json!({"node": {"name": "a"}})).unwrap_err();
        assert!(said.to_string().contains("x.j2:2: undefined"), "{said}");
        assert!(!dir.path().join("x").exists());
        let said = Files::read(&[target(dir.path(), "{% for %}")]).unwrap_err();
        assert!(said.to_string().contains("x.j2:1: syntax error"), "{said}");
        for wrong in ["", "a", "=b", "a="] {
            assert!(wrong.parse::<Target>().is_err(), "{wrong}");
        }
    }
}
