//! The plane of a driver whose edges are in the kernel: one namespace for all host ends, and one thread.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, Weak};

use constel_host::netlink::{Batch, Socket};
use constel_host::netns::NetNs;
use constel_link::PortId;

use crate::DriverKind;
use crate::config::PlaneConfig;
use crate::error::{DriverError, Result, check_port};
use crate::quiet::lost_before_capture;
use crate::traits::{Links, Plane};
use crate::worker::{Backend, WorkerHandle};

/// The parts of such a driver that differ.
pub(crate) trait InKernel: fmt::Debug + Send + Sync {
    /// The driver.
    const KIND: DriverKind;
    /// The backend of its thread.
    type Backend: Backend;

    /// Adds the netlink requests that take a port's host end into the plane. The port may have been there before: then
    /// its objects outside the host end exist.
    fn attach(&self, port: PortId, batch: &mut Batch) -> Result<()>;

    /// Creates the backend; called once. `ns` is the plane's namespace.
    fn backend(&self, ns: NetNs) -> Result<Self::Backend>;
}

/// A driver with its namespace.
#[derive(Debug)]
pub(crate) struct KernelPlane<D> {
    config: PlaneConfig,
    ns: NetNs,
    driver: D,
    /// The thread, once it was started.
    started: Mutex<Option<Weak<WorkerHandle>>>,
}

impl<D: InKernel> KernelPlane<D> {
    /// Creates the plane. `driver` has created its interfaces in `ns`, where the host ends must be.
    pub(crate) fn new(config: &PlaneConfig, ns: NetNs, driver: D) -> KernelPlane<D> {
        KernelPlane {
            config: config.clone(),
            ns,
            driver,
            started: Mutex::default(),
        }
    }
}

impl<D: InKernel> Plane for KernelPlane<D> {
    fn kind(&self) -> DriverKind {
        D::KIND
    }

    fn shard_ns(&self, port: PortId) -> Result<&NetNs> {
        check_port(port, self.config.ports)?;
        Ok(&self.ns)
    }

    fn attach(&self, ports: &[PortId]) -> Result<()> {
        let mut batch = Batch::new();
        for &port in ports {
            check_port(port, self.config.ports)?;
            self.driver.attach(port, &mut batch)?;
        }
        Socket::open_in(&self.ns)?.send(&mut batch)?;
        let started = self.started.lock().map_err(|_| DriverError::Stopped)?;
        match started.as_ref().and_then(Weak::upgrade) {
            Some(worker) => worker.renew(ports.to_vec()),
            None => Ok(()),
        }
    }

    fn start(&self) -> Result<Arc<dyn Links>> {
        let mut started = self.started.lock().map_err(|_| DriverError::Stopped)?;
        if started.is_some() {
            return Err(DriverError::Started);
        }
        let backend = self.driver.backend(self.ns.try_clone()?)?;
        let (lab, ports) = (&self.config.lab, self.config.ports);
        let worker = Arc::new(WorkerHandle::start(D::KIND, lab, ports, backend)?);
        *started = Some(Arc::downgrade(&worker));
        Ok(worker)
    }

    fn lost_before_capture(&self) -> Result<u64> {
        self.ns.run(lost_before_capture)?
    }

    fn namespaces(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.ns.fd()]
    }
}
