//! Noticing that whoever started this process is gone.

/// Waits until the parent of this process has ended; for ever where the system does not tell.
///
/// A client that is killed closes the pipe to our standard input only if nobody else holds its other end, and its
/// helpers often do. The parent is watched by handle, not by asking the kernel for a signal at its death: that would
/// follow the thread that started us, which may end before its process does.
pub async fn gone() {
    #[cfg(target_os = "linux")]
    watch().await;
    #[cfg(not(target_os = "linux"))]
    std::future::pending().await
}

#[cfg(target_os = "linux")]
async fn watch() {
    use rustix::process::{PidfdFlags, getppid, pidfd_open};

    let parent = getppid();
    let handle = parent.and_then(|parent| pidfd_open(parent, PidfdFlags::NONBLOCK).ok());
    if getppid() != parent {
        // It ended while it was looked at; the handle may be somebody else's.
        return;
    }
    match handle.and_then(readiness::of) {
        Some(ended) if ended.readable().await.is_ok() => {}
        _ => std::future::pending().await,
    }
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod readiness {
    use std::os::fd::OwnedFd;

    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    /// Registers a descriptor that becomes readable.
    pub fn of(descriptor: OwnedFd) -> Option<AsyncFd<OwnedFd>> {
        // SAFETY: the descriptor is open, and the `AsyncFd` owns it: nobody else closes or replaces it meanwhile.
        unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) }.ok()
    }
}
