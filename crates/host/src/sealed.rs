//! Execution of this program such that programs that it starts cannot write to its file.
//!
//! For the moment between `clone` and `exec`, `/proc/self/exe` of a container's process is the file of this program. An
//! image whose program is a script that begins with `#!/proc/self/exe` makes the kernel execute it inside, with the
//! image's own dynamic loader. The loader can open the file for writing as soon as no process runs it any more
//! (CVE-2019-5736 is the same problem in other runtimes). So every command that puts programs into nodes executes
//! itself again. It uses a read-only mount of its own file that is in no mount namespace, or a sealed copy in memory if
//! the kernel does not have such mounts (before Linux 5.12). Then `/proc/self/exe` refers to that, wherever it is
//! opened.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags, StatVfsMountFlags};

use crate::enclosure::mounts::read_only_clone;
use crate::error::{Context, Error, Result};

const OWN: &str = "/proc/self/exe";

/// Executes this program again, with the same arguments, so that its file cannot be written through `/proc/self/exe`.
/// Returns if that has been done already, and for users other than root, who cannot put programs into nodes. Call it
/// before other threads exist.
///
/// # Errors
/// [`Error::Os`] when neither a read-only mount nor a sealed copy can be made and executed.
pub fn enter() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    if is_sealed()? {
        keep_name();
        return Ok(());
    }
    let what = || "keep this program's file from being written by nodes".to_owned();
    let path = std::env::current_exe().context(what)?;
    let own = File::open(OWN).context(what)?;
    let sealed = match read_only_clone(own.as_fd()) {
        Ok(clone) => clone,
        Err(_) => copy(own).context(what)?,
    };
    Err(Error::os(what(), execute(&sealed, &path)))
}

/// Returns the path of this program's file: that of [`enter`]'s caller, whatever name the kernel gives the sealed one.
///
/// # Errors
/// When the kernel does not report it.
pub fn own_program() -> io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    match (is_nameless(&own), std::env::args_os().next()) {
        (true, Some(name)) => Ok(name.into()),
        _ => Ok(own),
    }
}

/// Returns whether a name is one that the kernel gives to a detached mount or a copy in memory.
fn is_nameless(own: &Path) -> bool {
    own == Path::new("/") || own.as_os_str().as_bytes().starts_with(b"/memfd:")
}

/// Returns whether no process can write to the file of `/proc/self/exe`.
fn is_sealed() -> Result<bool> {
    let what = || format!("look at {OWN}");
    let own = File::open(OWN).context(what)?;
    let mount = rustix::fs::fstatvfs(&own).context(what)?;
    let seals = rustix::fs::fcntl_get_seals(&own).unwrap_or(SealFlags::empty());
    Ok(mount.f_flag.contains(StatVfsMountFlags::RDONLY) || seals.contains(SealFlags::WRITE))
}

/// Restores the process's name, which the kernel derives from the descriptor that was executed.
fn keep_name() {
    let name = own_program().ok();
    let name = name.as_deref().and_then(Path::file_name);
    if let Some(name) = name.and_then(|name| CString::new(name.as_bytes()).ok()) {
        // The name is only informative, so a failure is ignored.
        let _ = rustix::thread::set_name(&name);
    }
}

/// Returns a copy in memory that cannot be changed any more.
fn copy(mut own: File) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut copy = File::from(rustix::fs::memfd_create("constel", flags)?);
    io::copy(&mut own, &mut copy)?;
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&copy, seals)?;
    // A file that is open for writing cannot be executed.
    let path = format!("/proc/self/fd/{}", copy.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Executes the file with this process's arguments and environment, and its path in place of the first argument;
/// returns the error.
fn execute(program: &OwnedFd, path: &Path) -> io::Error {
    let arguments = std::iter::once(OsString::from(path)).chain(std::env::args_os().skip(1));
    let arguments: Result<Vec<CString>, _> = arguments
        .map(|argument| CString::new(argument.as_bytes()))
        .collect();
    let arguments = match arguments {
        Ok(arguments) => arguments,
        Err(error) => return error.into(),
    };
    let mut pointers: Vec<_> = arguments.iter().map(|text| text.as_ptr()).collect();
    pointers.push(std::ptr::null());
    unsafe extern "C" {
        static environ: *const *const libc::c_char;
    }
    // SAFETY: the arguments end with a null pointer and outlive the call; no other thread changes the environment, since none exists.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            program.as_raw_fd(),
            c"".as_ptr(),
            pointers.as_ptr(),
            environ,
            libc::AT_EMPTY_PATH,
        );
    }
    io::Error::last_os_error()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn names_without_a_folder_are_no_files_of_ours() {
        assert!(is_nameless(Path::new("/")));
        assert!(is_nameless(Path::new("/memfd:constel (deleted)")));
        assert!(!is_nameless(Path::new("/usr/bin/constel")));
        assert!(!is_nameless(Path::new("/constel")));
    }

    /// A file that is opened through either of them can be read, and not written, truncated, or given to another user.
    #[test]
    fn neither_a_clone_nor_a_copy_can_be_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program");
        std::fs::write(&path, "text").unwrap();
        let file = || File::open(&path).unwrap();
        for sealed in [
            read_only_clone(file().as_fd()).unwrap(),
            copy(file()).unwrap(),
        ] {
            let again = format!("/proc/self/fd/{}", sealed.as_raw_fd());
            let mut text = String::new();
            File::open(&again)
                .unwrap()
                .read_to_string(&mut text)
                .unwrap();
            assert_eq!(text, "text");
            let written = File::options().append(true).open(&again);
            let written = written.and_then(|mut file| io::Write::write_all(&mut file, b"x"));
            assert!(written.is_err());
            assert!(File::create(&again).is_err());
        }
        assert_eq!(std::fs::read(&path).unwrap(), b"text");
    }
}
