//! The runtimes that create nodes.
//!
//! A [`NodeRuntime`] creates many nodes at a time. Ports are then created in their namespaces. Each node is
//! [finished](FreshNode::finish) from inside and becomes a [`Node`], which takes netlink requests, returns its routes, and
//! starts programs. Dropping a node removes it, so that no end of a lab leaves nodes behind.
//!
//! [`netns`] is a network namespace held by a descriptor, with the host's programs or, for a node with an image, with a
//! [`container`] in it. With [`docker`], Docker's or Podman's engine creates the container, and its namespace is the node's.
//! [`mixed`] has nodes of both kinds. [`memory`] keeps everything in this process, which allows tests of bring-up, failures
//! during it and take-down without root.
//!
//! ```
//! use constel_containers::runtime::memory::MemoryRuntime;
//! use constel_containers::runtime::{NodeRuntime, Node};
//! use constel_host::netlink::{AddressSpec, Batch, IpPrefix};
//!
//! let runtime = MemoryRuntime::default();
//! let fresh = runtime.create(&["tokyo", "london"])?;
//! assert_eq!(runtime.alive(), 2);
//! let mut setup = Batch::new();
//! setup.add_address(&AddressSpec::new(1, IpPrefix::host("10.0.0.1".parse()?)));
//! let mut nodes = Vec::new();
//! for node in fresh {
//!     nodes.push(node.finish(&mut || Ok(()), &mut setup)?);
//! }
//! assert!(nodes[0].routes()?.is_empty());
//! drop(nodes);
//! assert_eq!(runtime.alive(), 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod container;
pub mod docker;
pub mod memory;
pub mod mixed;
pub mod netns;

use std::ffi::OsString;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use constel_host::Result;
use constel_host::cgroup::LabCgroup;
use constel_host::netlink::{Batch, InstalledRoute, Stack, StackWatch};
use constel_host::process::{Child, Confinement, Stdio};

/// Makes nodes of one kind.
pub trait NodeRuntime: Send + Sync {
    /// The word for it in scenarios and manifests: `netns`, ...
    fn name(&self) -> &'static str;

    /// Makes the nodes of these names, in their order, without ports.
    ///
    /// # Errors
    /// The error of the host. No node is left then.
    fn create(&self, names: &[&str]) -> Result<Vec<Box<dyn FreshNode>>>;
}

/// A node that has no ports yet, or whose ports were just created.
pub trait FreshNode: Send {
    /// Returns its network namespace, in which ports are created.
    fn netns(&self) -> BorrowedFd<'_>;

    /// Enters the node with the calling thread, which need not come back. Runs `inside` there, and sends the node its
    /// `setup`, which is empty afterwards.
    ///
    /// Those of `inside`, or of the node's kernel. The node is then gone.
    fn finish(
        self: Box<Self>,
        inside: &mut dyn FnMut() -> Result<()>,
        setup: &mut Batch,
    ) -> Result<Box<dyn Node>>;
}

/// A node that exists. Dropping it removes it.
pub trait Node: Send + Sync {
    /// A path by which other processes reach its network namespace as long as it exists.
    fn netns_path(&self) -> PathBuf;

    /// Carries out requests inside, in order, and empties the batch. When it returns, the kernel has done them.
    ///
    /// # Errors
    /// Each refused request; the others were carried out.
    fn tell(&self, batch: &mut Batch) -> Result<()>;

    /// All routes of all tables.
    ///
    /// # Errors
    /// When the kernel does not answer.
    fn routes(&self) -> Result<Vec<InstalledRoute>>;

    /// Returns the route of the node to each of these addresses, or `None` if it has none.
    ///
    /// # Errors
    /// If the kernel does not answer.
    fn lookup(&self, addresses: &[IpAddr]) -> Result<Vec<Option<InstalledRoute>>>;

    /// Returns its present network stack without routes, or `None` if it has no stack of its own.
    ///
    /// # Errors
    /// If the kernel does not answer.
    fn stack(&self) -> Result<Option<Stack>> {
        Ok(None)
    }

    /// Adds the node to a watch, which reports changes of its network stack by other programs under this number.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn watch(&self, watch: &StackWatch, number: u32) -> Result<()> {
        let _ = (watch, number);
        Ok(())
    }

    /// Returns the access for other processes to the node of that name.
    ///
    /// # Errors
    /// If the view of its programs cannot be created.
    fn door(&self, name: &str) -> Result<NodeEntry>;

    /// Starts the node's own program if it is a container. Ignores `argv` and `env` of `program`. The caller must watch the
    /// child. When it has ended, it may be started again.
    ///
    /// # Errors
    /// If the container cannot be created, or its program does not exist.
    fn boot(&self, program: Program<'_>) -> Result<Option<Child>> {
        drop(program);
        Ok(None)
    }

    /// Whether its own program, which has ended, may be started again.
    fn may_boot(&self) -> bool {
        true
    }

    /// Returns whether a process of its container was killed at the container's own memory limit since the last call. If the
    /// lab's control groups have the limit, they report it.
    fn ran_out_of_memory(&self) -> bool {
        false
    }

    /// Starts a program inside. The caller must watch the child.
    ///
    /// # Errors
    /// If it does not exist or cannot be started.
    fn start(&self, program: Program<'_>) -> Result<Child>;

    /// Closes connections whose programs have ended, which would keep the node for minutes.
    ///
    /// # Errors
    /// If the kernel does not answer.
    fn end_connections(&self) -> Result<()>;
}

/// Paths by which other processes enter a node as long as it exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeEntry {
    /// Network namespace of the node.
    pub netns: PathBuf,
    /// The mount namespace of its programs.
    pub mounts: PathBuf,
    /// Process namespace of its programs.
    pub pids: PathBuf,
    /// Additional data of a container. `None`: it is not a container.
    pub inner: Option<Inner>,
}

/// How programs are in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inner {
    /// The number of its first process.
    pub first: u32,
    /// Restrictions of its programs.
    pub confinement: Confinement,
    /// Their environment.
    pub env: Vec<(OsString, OsString)>,
    /// Working directory.
    pub workdir: PathBuf,
    /// The groups that they are in, where these are not the lab's.
    pub cgroups: Vec<PathBuf>,
}

/// A program to start in a node.
pub struct Program<'a> {
    /// The lab, for the mark that every process carries.
    pub lab: &'a str,
    /// The node's name, for the mark.
    pub node: &'a str,
    /// Command and arguments.
    pub argv: &'a [String],
    /// The search path it is looked up in and gets.
    pub search_path: OsString,
    /// Variables beside the search path.
    pub env: Vec<(OsString, OsString)>,
    /// File that receives its standard output.
    pub stdout: &'a Path,
    /// File that receives its standard error; may be the same, which is then appended to.
    pub stderr: &'a Path,
    /// Groups it runs in, the last one wins where they exclude each other.
    pub cgroups: Vec<&'a LabCgroup>,
    /// Whether it gets notifications from its kernel (netlink multicast).
    pub kernel_events: bool,
    /// Whether it is the image's, and in its container, where the node is one: not the host's, beside it in the node's
    /// network. Environment and search path are the container's then.
    pub of_image: bool,
    /// Whether its output is appended to existing files.
    pub append: bool,
}

impl Program<'_> {
    /// Opens one of its two output files. Truncates it, unless both are the same file.
    pub(crate) fn file(&self, path: &Path) -> Stdio {
        match self.append || self.stdout == self.stderr {
            true => Stdio::Append(path.to_owned()),
            false => Stdio::Create(path.to_owned()),
        }
    }
}
