//! The capabilities of this host, found by trying.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use constel_drivers::DriverKind;
use constel_host::process::find_command;
use constel_lab::{EngineError, search_path};
use serde::{Deserialize, Serialize};

/// Software that shipped scenarios run, with the Debian package of each.
const SOFTWARE: &[(&str, &str)] = &[
    ("bird", "bird2"),
    ("zebra", "frr"),
    ("iperf3", "iperf3"),
    ("ping", "iputils-ping"),
    ("nginx", "nginx-light"),
    ("curl", "curl"),
];

/// The result of all checks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// Whether every required thing works: labs can run here.
    pub able: bool,
    /// Whether each link driver works.
    pub drivers: BTreeMap<String, bool>,
    /// The driver that labs get unless they name one.
    pub driver: DriverInUse,
    /// Whether each kind of node works.
    pub runtimes: Runtimes,
    /// Everything that was tried.
    pub items: Vec<Finding>,
}

/// The driver of `links.driver: auto`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverInUse {
    /// Name of the driver, or `none` if no driver works.
    pub name: String,
    /// Why this one.
    pub why: String,
}

/// Kinds of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runtimes {
    /// Network namespaces.
    pub netns: bool,
    /// Containers of Docker's or Podman's engine.
    pub docker: bool,
}

/// One thing that was tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Area of the check: `host`, `driver`, `driver relay`, `routing`, `networks`, `software`.
    pub area: String,
    /// Name of the check.
    pub name: String,
    /// Whether it works.
    pub ok: bool,
    /// Whether no lab can do without.
    pub required: bool,
    /// Details of the result.
    pub detail: String,
    /// The remedy. It may be empty.
    pub remedy: String,
}

/// Tries everything. Takes seconds; leaves nothing behind.
#[must_use]
pub fn doctor() -> Diagnosis {
    let mut items: Vec<Finding> = constel_host::probe::probe()
        .into_iter()
        .map(|item| Finding {
            area: "host".to_owned(),
            name: item.name,
            ok: item.ok,
            required: item.required,
            detail: item.detail,
            remedy: item.remedy,
        })
        .collect();
    let reports = DriverKind::ALL.map(constel_drivers::probe);
    let chosen = constel_drivers::choose(None);
    for report in &reports {
        for item in &report.features {
            // One working driver is enough. If none works, the findings of the relay driver explain the remedy.
            let required = chosen.is_err() && report.driver == DriverKind::Relay;
            items.push(Finding {
                area: format!("driver {}", report.driver),
                name: item.name.to_owned(),
                ok: item.works,
                required: required && !item.name.contains("optional"),
                detail: first_line(&item.detail),
                remedy: unless(item.works, item.remedy),
            });
        }
    }
    let driver = match &chosen {
        Ok(chosen) => DriverInUse {
            name: chosen.kind.name().to_owned(),
            why: chosen.why.clone(),
        },
        Err(error) => DriverInUse {
            name: "none".to_owned(),
            why: error.to_string(),
        },
    };
    items.push(Finding {
        area: "driver".to_owned(),
        name: "links.driver: auto".to_owned(),
        ok: chosen.is_ok(),
        required: true,
        detail: format!("{}: {}", driver.name, driver.why),
        remedy: String::new(),
    });
    let map = constel_drivers::forward::probe();
    items.push(Finding {
        area: "routing".to_owned(),
        name: map.name.to_owned(),
        ok: map.ok,
        required: false,
        detail: if map.ok {
            "optional".to_owned()
        } else {
            first_line(&map.detail)
        },
        remedy: unless(map.ok, &map.remedy),
    });
    items.extend(management());
    items.extend(software());
    let engine = crate::engines::usual();
    items.push(Finding {
        area: "software".to_owned(),
        name: "container engine".to_owned(),
        ok: engine.is_ok(),
        required: false,
        remedy: unless(
            engine.is_ok(),
            "only nodes with `runtime: docker` need one: apt-get install docker.io, or podman",
        ),
        detail: engine.clone().unwrap_or_else(|reason| reason),
    });
    let able = items.iter().all(|item| item.ok || !item.required);
    let works = reports.map(|report| (report.driver.name().to_owned(), report.works));
    Diagnosis {
        able,
        drivers: works.into(),
        driver,
        runtimes: Runtimes {
            netns: able,
            docker: able && engine.is_ok(),
        },
        items,
    }
}

/// Checks whether networks with `management` work: the bridge, and the rules of this machine's firewall if there is one.
fn management() -> Vec<Finding> {
    let management = constel_lab::probe_management();
    let mut items = vec![Finding {
        area: "networks".to_owned(),
        name: "management".to_owned(),
        ok: management.is_ok(),
        required: false,
        detail: match &management {
            Ok(()) => "optional".to_owned(),
            Err(error) => first_line(&error.to_string()),
        },
        remedy: unless(
            management.is_ok(),
            "only networks with `management: true` need it: a kernel with CONFIG_BRIDGE (modprobe bridge) and policy rules",
        ),
    }];
    if management.is_ok() {
        items.push(reach());
    }
    items
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// Whether this machine's firewall lets it reach nodes by `management`.
pub(crate) fn reach() -> Finding {
    let reach = constel_lab::probe_management_reach();
    let (detail, remedy) = match &reach {
        Ok(()) => ("packets pass".to_owned(), String::new()),
        Err(EngineError::Unable { what, remedy }) => (what.clone(), remedy.clone()),
        Err(error) => (error.to_string(), String::new()),
    };
    Finding {
        area: "networks".to_owned(),
        name: "management from this machine".to_owned(),
        ok: reach.is_ok(),
        required: false,
        detail,
        remedy,
    }
}

fn software() -> impl Iterator<Item = Finding> {
    let path = search_path();
    SOFTWARE.iter().map(move |(program, package)| {
        let found = find_command(OsStr::new(program), &path);
        Finding {
            area: "software".to_owned(),
            name: (*program).to_owned(),
            ok: found.is_ok(),
            required: false,
            remedy: unless(found.is_ok(), &format!("apt-get install {package}")),
            detail: found.map_or_else(
                |_| "not found".to_owned(),
                |path| path.display().to_string(),
            ),
        }
    })
}

fn unless(works: bool, remedy: &str) -> String {
    if works {
        String::new()
    } else {
        remedy.to_owned()
    }
}
