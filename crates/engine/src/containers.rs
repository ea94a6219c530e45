//! Containers that an engine makes for us: what is asked for, and what becomes of them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::error::{Result, What};
use crate::images::quoted;
use crate::{Engine, Kind, Sent};

/// The label that names the lab a container belongs to.
pub const LAB_LABEL: &str = "constel.lab";
/// The label that names its node.
pub const NODE_LABEL: &str = "constel.node";
/// The label that names the process which answers for it.
pub const OWNER_LABEL: &str = "constel.owner";

/// A container to be made. It stays until it is removed, so that the engine can say how it ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Order {
    /// Its name.
    pub name: String,
    /// The image, by [`ImageConfig::id`](crate::ImageConfig::id) or by a name.
    pub image: String,
    /// Its first process with its arguments, in place of the image's.
    pub argv: Vec<String>,
    /// Variables beside the image's.
    pub env: Vec<(String, String)>,
    /// Where its programs begin; `None`: as the image says.
    pub workdir: Option<String>,
    /// Whom they run as; `None`: as the image says.
    pub user: Option<String>,
    /// Further groups that they are in.
    pub groups: Vec<u32>,
    /// What it calls its machine; that of the other container where it has that one's network.
    pub hostname: String,
    /// Its network.
    pub network: Network,
    /// Its labels.
    pub labels: Vec<(String, String)>,
    /// What it sees of the host.
    pub binds: Vec<Bind>,
    /// Folders that are in memory, with the options of their mounts.
    pub in_memory: Vec<(String, String)>,
    /// All capabilities that it has, by their names.
    pub capabilities: Vec<String>,
    /// Whether it may make all system calls, not only those that the engine lets pass.
    pub all_system_calls: bool,
    /// Whether nothing that it executes has more rights.
    pub no_new_privileges: bool,
    /// Thousandths of a processor that it may take.
    pub cpu_thousandths: Option<u64>,
    /// Memory that it may take.
    pub memory_bytes: Option<u64>,
    /// Processes that it may have.
    pub processes: Option<u64>,
    /// Limits of the kernel, where the engine's own are not to be had.
    pub ulimits: Vec<Ulimit>,
}

/// What network a container has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Network {
    /// One of its own, with nothing in it.
    #[default]
    None,
    /// That of the container of that identity, as it is when this one is started; that one must run then.
    Of(String),
    /// That at a path; Podman alone knows how.
    At(String),
}

/// A file or folder of the host that a container sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bind {
    /// What; absolute.
    pub source: String,
    /// Where; absolute.
    pub target: String,
    /// Whether it cannot be written there.
    pub read_only: bool,
}

/// A limit of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ulimit {
    /// Its name, as `nofile`.
    pub name: String,
    /// What may be had.
    pub most: u64,
}

/// A container that an engine has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its identity.
    pub id: String,
    /// The lab it is of.
    pub lab: String,
    /// The node it is of.
    pub node: Option<String>,
    /// The mark of the process that answers for it.
    pub owner: Option<String>,
}

impl Order {
    /// What the engine is asked for: the same order gives the same bytes.
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
            // What nodes have does not depend on the engine.
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
            // Both together: without it, there is as much swap again.
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
        // Engines refuse the one together with the other.
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
    /// Makes a container, and gives its identity. It does not run yet.
    ///
    /// # Errors
    /// When the engine refuses, [`is_conflict`](crate::Error::is_conflict) if there is one of the name.
    pub fn create(&self, order: &Order) -> Result<String> {
        let path = format!("/containers/create?name={}", quoted(&order.name));
        let answer = self.ask("POST", &path, Sent::Json(&order.body()))?.json()?;
        let id = answer["Id"].as_str().unwrap_or_default();
        if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(self.error(What::Odd("it made a container without identity".to_owned())));
        }
        Ok(id.to_owned())
    }

    /// Starts a container that was made.
    ///
    /// # Errors
    /// When the engine cannot run it.
    pub fn start(&self, id: &str) -> Result<()> {
        self.ask("POST", &format!("/containers/{id}/start"), Sent::Nothing)?
            .end()
    }

    /// The number of a container's first process; `None` if it does not run.
    ///
    /// # Errors
    /// When there is none of that identity, or the engine does not answer.
    pub fn first_process(&self, id: &str) -> Result<Option<u32>> {
        let answer = self.ask("GET", &format!("/containers/{id}/json"), Sent::Nothing)?;
        let number = answer.json()?["State"]["Pid"].as_u64();
        Ok(number
            .and_then(|n| u32::try_from(n).ok())
            .filter(|n| *n > 0))
    }

    /// Waits until a container has ended, and gives its exit code as a shell has it: 128 and the signal's number, if one
    /// ended it.
    ///
    /// # Errors
    /// When there is none of that identity, or it runs on for longer than the engine's patience lasts.
    pub fn exit_code(&self, id: &str) -> Result<i64> {
        let path = format!("/containers/{id}/wait?condition=not-running");
        let answer = self.ask("POST", &path, Sent::Nothing)?.json()?;
        let odd = || What::Odd("it does not say how a container ended".to_owned());
        answer["StatusCode"]
            .as_i64()
            .ok_or_else(|| self.error(odd()))
    }

    /// Whether a process of a container was killed because its limit of memory was reached, as far as the engine has seen it.
    ///
    /// # Errors
    /// When there is none of that identity, or the engine does not answer.
    pub fn ran_out_of_memory(&self, id: &str) -> Result<bool> {
        let answer = self.ask("GET", &format!("/containers/{id}/json"), Sent::Nothing)?;
        Ok(answer.json()?["State"]["OOMKilled"] == true)
    }

    /// Removes a container, running or not, and waits until it is gone. One that is gone already is as good.
    ///
    /// # Errors
    /// When the engine refuses, or it is not gone after `within`.
    pub fn remove(&self, id: &str, within: Duration) -> Result<()> {
        let end = Instant::now() + within;
        let patient = self.clone().patience(within.max(Duration::from_secs(1)));
        loop {
            let path = format!("/containers/{id}?force=true&v=true");
            match patient
                .ask("DELETE", &path, Sent::Nothing)
                .and_then(crate::Answer::end)
            {
                Err(error) if error.is_absent() => return Ok(()),
                // Somebody is at it: the engine itself, since its first process ended.
                Err(error) if error.is_conflict() && Instant::now() < end => {
                    let path = format!("/containers/{id}/wait?condition=removed");
                    match patient
                        .ask("POST", &path, Sent::Nothing)
                        .and_then(crate::Answer::end)
                    {
                        Err(error) if error.is_absent() => return Ok(()),
                        other => other?,
                    }
                }
                other => return other,
            }
        }
    }

    /// All containers of a lab, or of all labs, running or not.
    ///
    /// # Errors
    /// When the engine does not answer.
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
            // An engine that does not know the filter would list all.
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
    /// Limits of the kernel that must be named, given what this process may have of them at most. Podman's own are more
    /// than a machine without all capabilities gives.
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
        let order = Order {
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
            ..Order::default()
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
            Order {
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
