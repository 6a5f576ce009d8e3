//! How a process of ours is recognised: by names in its environment.

/// The variable that names the run a process belongs to.
pub const RUN_VARIABLE: &str = "PENTAD_RUN";
/// The variable that says a process may outlive its command.
pub const LEAVES_VARIABLE: &str = "PENTAD_LEAVES_PROCESSES";

/// Returns the value of a variable in a process's environment, as it was at its exec.
#[cfg(target_os = "linux")]
pub(crate) fn variable_of(pid: rustix::process::Pid, name: &str) -> Option<std::ffi::OsString> {
    use std::os::unix::ffi::OsStringExt;
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    environment.split(|byte| *byte == 0).find_map(|entry| {
        let value = entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        Some(std::ffi::OsString::from_vec(value.to_vec()))
    })
}

/// Returns whether this process was started by a tool that leaves processes behind on purpose.
#[cfg(target_os = "linux")]
pub(crate) fn may_stay(pid: rustix::process::Pid) -> bool {
    variable_of(pid, LEAVES_VARIABLE).as_deref() == Some(std::ffi::OsStr::new("1"))
}
