//! Containers that an engine makes for us: their configuration and their life.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::engine::error::{Result, What};
use crate::engine::images::quoted;
use crate::engine::{Engine, Kind, Sent};

/// The label that names the lab a container belongs to.
pub const LAB_LABEL: &str = "constel.lab";
/// The label that names the container's node.
pub const NODE_LABEL: &str = "constel.node";
/// The label that names the process responsible for the container.
pub const OWNER_LABEL: &str = "constel.owner";

/// The configuration of a new container. The engine keeps the container after its end, so that its exit code can be read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContainerOptions {
    /// The container's name.
    pub name: String,
    /// The image, by [`ImageConfig::id`](crate::engine::ImageConfig::id) or by a name.
    pub image: String,
    /// The first process with its arguments, in place of the image's.
    pub argv: Vec<String>,
    /// Environment variables, in addition to the image's.
    pub env: Vec<(String, String)>,
    /// The working directory of its programs; `None`: the image's.
    pub workdir: Option<String>,
    /// The user that its programs run as; `None`: the image's.
    pub user: Option<String>,
    /// Additional groups of that user.
    pub groups: Vec<u32>,
    /// The host name; unused if the container shares another one's network.
    pub hostname: String,
    /// The network.
    pub network: Network,
    /// The labels.
    pub labels: Vec<(String, String)>,
    /// Files and folders of the host that it has access to.
    pub binds: Vec<Bind>,
    /// Folders in memory (tmpfs), with their mount options.
    pub in_memory: Vec<(String, String)>,
    /// All capabilities of the container, by name.
    pub capabilities: Vec<String>,
    /// Whether all system calls are allowed, not only those of the engine's default filter.
    pub all_system_calls: bool,
    /// Whether programs cannot gain privileges by `execve`.
    pub no_new_privileges: bool,
    /// Limit of processor time, in thousandths of a processor.
    pub cpu_thousandths: Option<u64>,
    /// Limit of memory.
    pub memory_bytes: Option<u64>,
    /// Limit of the number of processes.
    pub processes: Option<u64>,
    /// Kernel limits, for engines whose default limits cannot be used.
    pub ulimits: Vec<Ulimit>,
}

/// The network of a container.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Network {
    /// An empty network namespace of its own.
    #[default]
    None,
    /// The network of the container with that identity, at the moment this one starts; that container must run then.
    Of(String),
    /// The network namespace at a path; only Podman supports this.
    At(String),
}

/// A file or folder of the host that is mounted in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bind {
    /// The path on the host; absolute.
    pub source: String,
    /// The path in the container; absolute.
    pub target: String,
    /// Whether the container cannot write to it.
    pub read_only: bool,
}

/// A kernel limit (ulimit).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ulimit {
    /// The limit's name, for example `nofile`.
    pub name: String,
    /// The maximum.
    pub most: u64,
}

/// A container in the engine's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The container's identity.
    pub id: String,
    /// The lab that it belongs to.
    pub lab: String,
    /// The node that it belongs to.
    pub node: Option<String>,
    /// The identification of the process responsible for it.
    pub owner: Option<String>,
}

impl ContainerOptions {
    /// Returns the request body for the engine; the same order gives the same bytes.
    #[must_use]
    pub fn body(&self) -> Value {
        let pairs = |all: &[(String, String)]| -> Value {
            all.iter()
                .map(|(key, value)| (key.clone(), json!(value)))
                .collect()
        };
        let env: Vec<String> = self
            .env
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let groups: Vec<String> = self.groups.iter().map(u32::to_string).collect();
        let mounts: Vec<Value> = self.binds.iter().map(Bind::body).collect();
        let mut security = Vec::new();
        if self.no_new_privileges {
            security.push("no-new-privileges");
        }
        if self.all_system_calls {
            security.push("seccomp=unconfined");
        }
        let ulimit =
            |limit: &Ulimit| json!({"Name": limit.name, "Soft": limit.most, "Hard": limit.most});
        let ulimits: Vec<Value> = self.ulimits.iter().map(ulimit).collect();
        let mut host = json!({
            "NetworkMode": self.network.mode(),
            "Mounts": mounts,
            "Tmpfs": pairs(&self.in_memory),
            "GroupAdd": groups,
            // Only the listed capabilities, so that nodes do not depend on the engine's defaults.
            "CapDrop": ["ALL"],
            "CapAdd": self.capabilities,
            "SecurityOpt": security,
            "LogConfig": {"Type": "none"},
            "Init": false,
        });
        if let Some(thousandths) = self.cpu_thousandths {
            host["NanoCpus"] = json!(thousandths.saturating_mul(1_000_000));
        }
        if let Some(bytes) = self.memory_bytes {
            host["Memory"] = json!(bytes);
            // Set to the same value as the memory limit, because the default allows the same amount of swap in addition.
            host["MemorySwap"] = json!(bytes);
        }
        if let Some(processes) = self.processes {
            host["PidsLimit"] = json!(processes);
        }
        if !ulimits.is_empty() {
            host["Ulimits"] = json!(ulimits);
        }
        let (program, arguments) = self.argv.split_at(1.min(self.argv.len()));
        let mut body = json!({
            "Image": self.image,
            "Entrypoint": program,
            "Cmd": arguments,
            "Env": env,
            "Labels": pairs(&self.labels),
            "AttachStdin": false,
            "AttachStdout": false,
            "AttachStderr": false,
            "Healthcheck": {"Test": ["NONE"]},
            "HostConfig": host,
        });
        // Engines reject a host name for a container that shares another one's network.
        if !matches!(self.network, Network::Of(_)) {
            body["Hostname"] = json!(self.hostname);
        }
        if let Some(workdir) = &self.workdir {
            body["WorkingDir"] = json!(workdir);
        }
        if let Some(user) = &self.user {
            body["User"] = json!(user);
        }
        body
    }
}

impl Network {
    fn mode(&self) -> String {
        match self {
            Self::None => "none".to_owned(),
            Self::Of(id) => format!("container:{id}"),
            Self::At(path) => format!("ns:{path}"),
        }
    }
}

impl Bind {
    fn body(&self) -> Value {
        json!({
            "Type": "bind",
            "Source": self.source,
            "Target": self.target,
            "ReadOnly": self.read_only,
        })
    }
}

impl Engine {
    /// Creates a container, without starting it, and returns its identity.
    ///
    /// # Errors
    /// If the engine refuses; [`is_conflict`](crate::engine::Error::is_conflict) if a container has the name already.
    pub fn create(&self, order: &ContainerOptions) -> Result<String> {
        let path = format!("/containers/create?name={}", quoted(&order.name));
        let answer = self.ask("POST", &path, Sent::Json(&order.body()))?.json()?;
        let id = answer["Id"].as_str().unwrap_or_default();
        if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(self.error(What::Odd("it made a container without identity".to_owned())));
        }
        Ok(id.to_owned())
    }

    /// Starts a created container.
    ///
    /// # Errors
    /// If the engine cannot run it.
    pub fn start(&self, id: &str) -> Result<()> {
        self.ask("POST", &format!("/containers/{id}/start"), Sent::Nothing)?
            .end()
    }

    /// Returns the process number of a container's first process; `None` if it does not run.
    ///
    /// # Errors
    /// If no container has that identity, or the engine does not answer.
    pub fn first_process(&self, id: &str) -> Result<Option<u32>> {
        let answer = self.ask("GET", &format!("/containers/{id}/json"), Sent::Nothing)?;
        let number = answer.json()?["State"]["Pid"].as_u64();
        Ok(number
            .and_then(|n| u32::try_from(n).ok())
            .filter(|n| *n > 0))
    }

    /// Waits until a container has ended, and returns its exit code as a shell does: 128 plus the number of the signal that
    /// ended it.
    ///
    /// # Errors
    /// If no container has that identity, or it runs longer than the engine's timeout.
    pub fn exit_code(&self, id: &str) -> Result<i64> {
        let path = format!("/containers/{id}/wait?condition=not-running");
        let answer = self.ask("POST", &path, Sent::Nothing)?.json()?;
        let odd = || What::Odd("it does not say how a container ended".to_owned());
        answer["StatusCode"]
            .as_i64()
            .ok_or_else(|| self.error(odd()))
    }

    /// Returns whether the engine recorded that a process of a container was killed at its memory limit.
    ///
    /// # Errors
    /// If no container has that identity, or the engine does not answer.
    pub fn ran_out_of_memory(&self, id: &str) -> Result<bool> {
        let answer = self.ask("GET", &format!("/containers/{id}/json"), Sent::Nothing)?;
        Ok(answer.json()?["State"]["OOMKilled"] == true)
    }

    /// Removes a container, running or not, and waits until it is removed. A missing container is a success.
    ///
    /// # Errors
    /// If the engine refuses, or the container still exists after `within`.
    pub fn remove(&self, id: &str, within: Duration) -> Result<()> {
        let end = Instant::now() + within;
        let patient = self.clone().patience(within.max(Duration::from_secs(1)));
        loop {
            let path = format!("/containers/{id}?force=true&v=true");
            match patient
                .ask("DELETE", &path, Sent::Nothing)
                .and_then(crate::engine::Answer::end)
            {
                Err(error) if error.is_absent() => return Ok(()),
                // Another removal is in progress: the engine itself removes the container after its first process ended.
                Err(error) if error.is_conflict() && Instant::now() < end => {
                    let path = format!("/containers/{id}/wait?condition=removed");
                    match patient
                        .ask("POST", &path, Sent::Nothing)
                        .and_then(crate::engine::Answer::end)
                    {
                        Err(error) if error.is_absent() => return Ok(()),
                        other => other?,
                    }
                }
                other => return other,
            }
        }
    }

    /// Returns all containers of a lab, or of all labs, running or not.
    ///
    /// # Errors
    /// If the engine does not answer.
    pub fn containers(&self, lab: Option<&str>) -> Result<Vec<Listed>> {
        let label = match lab {
            Some(lab) => format!("{LAB_LABEL}={lab}"),
            None => LAB_LABEL.to_owned(),
        };
        let filters = json!({"label": [label]}).to_string();
        let path = format!("/containers/json?all=true&filters={}", quoted(&filters));
        let answer = self.ask("GET", &path, Sent::Nothing)?.json()?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let listed = answer.as_array().into_iter().flatten().filter_map(|one| {
            let of = text(&one["Labels"][LAB_LABEL])?;
            // An engine that does not support the filter would list all containers.
            let meant = lab.is_none_or(|lab| lab == of);
            Some(Listed {
                id: text(&one["Id"]).filter(|_| meant)?,
                lab: of,
                node: text(&one["Labels"][NODE_LABEL]),
                owner: text(&one["Labels"][OWNER_LABEL]),
            })
        });
        Ok(listed.collect())
    }
}

impl Kind {
    /// Returns the kernel limits that must be set explicitly, given this process's own maximum. Podman's defaults exceed what a
    /// machine without all capabilities allows.
    #[must_use]
    pub fn ulimits(self, files: Option<u64>, processes: Option<u64>) -> Vec<Ulimit> {
        if self == Self::Docker {
            return Vec::new();
        }
        let named = [("nofile", files), ("nproc", processes)];
        let given = named.into_iter().filter_map(|(name, most)| {
            let name = name.to_owned();
            Some(Ulimit { name, most: most? })
        });
        given.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_said_in_full() {
        let order = ContainerOptions {
            name: "constel-lab-3".into(),
            image: "sha256:ab".into(),
            argv: vec!["/init".into(), "sh".into(), "-c".into()],
            env: vec![("A".into(), "b=c".into())],
            user: Some("33:34".into()),
            hostname: "tokyo".into(),
            labels: vec![(LAB_LABEL.into(), "lab".into())],
            binds: vec![Bind {
                source: "/h:x".into(),
                target: "/in".into(),
                read_only: true,
            }],
            capabilities: vec!["CHOWN".into()],
            all_system_calls: true,
            no_new_privileges: true,
            cpu_thousandths: Some(500),
            memory_bytes: Some(1 << 20),
            processes: Some(7),
            ..ContainerOptions::default()
        };
        let body = order.body();
        assert_eq!(body["Entrypoint"], json!(["/init"]));
        assert_eq!(body["Cmd"], json!(["sh", "-c"]));
        assert_eq!(body["Env"], json!(["A=b=c"]));
        assert!(body.get("WorkingDir").is_none());
        let host = &body["HostConfig"];
        assert_eq!(host["NanoCpus"], 500_000_000);
        assert_eq!(host["Memory"], host["MemorySwap"]);
        assert_eq!(host["NetworkMode"], "none");
        assert_eq!(host["CapDrop"], json!(["ALL"]));
        assert_eq!(host["Mounts"][0]["Source"], "/h:x");
        let security = json!(["no-new-privileges", "seccomp=unconfined"]);
        assert_eq!(host["SecurityOpt"], security);
        assert!(host.get("Privileged").is_none() && host.get("Ulimits").is_none());
        assert_eq!(body["Hostname"], "tokyo");
        let of = |network| {
            ContainerOptions {
                network,
                ..order.clone()
            }
            .body()
        };
        let shared = of(Network::Of("ab".into()));
        assert_eq!(shared["HostConfig"]["NetworkMode"], "container:ab");
        assert!(shared.get("Hostname").is_none());
        let at = of(Network::At("/proc/1/fd/3".into()));
        assert_eq!(at["HostConfig"]["NetworkMode"], "ns:/proc/1/fd/3");
    }
}
