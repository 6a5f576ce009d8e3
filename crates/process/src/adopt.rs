//! Orphans that come to the client when a spawner and a warden died together.

use std::time::Duration;

#[cfg(target_os = "linux")]
use crate::host::tree;

/// How long adopted orphans may take to die of SIGKILL.
const LIMIT: Duration = Duration::from_secs(5);

/// Kills and reaps the children of this process that carry this marker, and their descendants.
///
/// Only children *of this process* count: a sibling command of the same run is still a child of its own
/// warden. The orphans come only when the guards are dead, a moment after their sockets are closed. Returns
/// how many are left when the limit is reached.
#[cfg(target_os = "linux")]
pub(crate) async fn end_adopted(run_marker: &str, guards: [i32; 2]) -> u32 {
    use rustix::process::{Signal, WaitOptions, getpid, kill_process, waitpid};
    let marked = |pid: &rustix::process::Pid| {
        crate::marker::variable_of(*pid, crate::marker::RUN_VARIABLE).is_some_and(|value| value == run_marker)
            && !crate::marker::may_stay(*pid)
    };
    let alive = |raw: &i32| {
        rustix::process::Pid::from_raw(*raw)
            .and_then(tree::Stat::of)
            .is_some_and(|stat| !stat.zombie)
    };
    let deadline = tokio::time::Instant::now() + LIMIT;
    let mut killed = std::collections::BTreeSet::new();
    loop {
        let guarded = guards.iter().any(alive);
        let heads: Vec<_> = tree::children(getpid()).into_iter().filter(marked).collect();
        for head in &heads {
            for pid in tree::descendants(*head).into_iter().chain([*head]) {
                let _ = kill_process(pid, Signal::KILL);
                killed.insert(pid.as_raw_nonzero().get());
            }
        }
        // Each pid stays ours until it is reaped here, so none can be another process by now.
        killed.retain(|raw| {
            rustix::process::Pid::from_raw(*raw)
                .is_some_and(|pid| matches!(waitpid(Some(pid), WaitOptions::NOHANG), Ok(None)))
        });
        // A dead warden came here as well; the spawner is its handle's to reap.
        let [warden, _] = guards;
        if let Some(pid) = rustix::process::Pid::from_raw(warden).filter(|_| !guarded) {
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
        if !guarded && heads.is_empty() && killed.is_empty() {
            return 0;
        }
        if tokio::time::Instant::now() >= deadline {
            return u32::try_from(killed.len().max(heads.len())).unwrap_or(u32::MAX);
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Does nothing: without a subreaper orphans go to init.
#[cfg(not(target_os = "linux"))]
pub(crate) async fn end_adopted(_run_marker: &str, _guards: [i32; 2]) -> u32 {
    let _ = LIMIT;
    0
}

/// Reaps dead children of this process that nobody else reaped within `patience`.
#[cfg(target_os = "linux")]
pub(crate) async fn reap_strangers<F>(patience: Duration, spawner: impl Fn() -> F)
where
    F: Future<Output = Option<u32>>,
{
    use rustix::process::{Pid, WaitOptions, getpid, waitpid};
    use std::collections::BTreeMap;
    use tokio::signal::unix::{SignalKind, signal};
    use tokio::time::Instant;

    let mut deaths = match signal(SignalKind::child()) {
        Ok(deaths) => deaths,
        Err(error) => {
            tracing::warn!(%error, "orphans cannot be reaped: SIGCHLD cannot be watched");
            return std::future::pending().await;
        }
    };
    let mut waiting: BTreeMap<i32, Instant> = BTreeMap::new();
    loop {
        let ours = spawner().await.map(u32::cast_signed);
        let dead: Vec<i32> = tree::children(getpid())
            .into_iter()
            .filter(|pid| tree::Stat::of(*pid).is_some_and(|stat| stat.zombie))
            .map(|pid| pid.as_raw_nonzero().get())
            .filter(|raw| Some(*raw) != ours)
            .collect();
        let now = Instant::now();
        waiting.retain(|raw, _| dead.contains(raw));
        for raw in dead {
            if *waiting.entry(raw).or_insert(now) + patience <= now {
                let _ = waitpid(Pid::from_raw(raw), WaitOptions::NOHANG);
                waiting.remove(&raw);
            }
        }
        let next = waiting.values().min().map(|seen| *seen + patience);
        tokio::select! {
            _ = deaths.recv() => {}
            () = async { tokio::time::sleep_until(next.unwrap_or(now)).await }, if next.is_some() => {}
        }
    }
}

/// Waits for ever: without `/proc` a stranger cannot be told from a child of ours.
#[cfg(not(target_os = "linux"))]
pub(crate) async fn reap_strangers<F>(_patience: Duration, _spawner: impl Fn() -> F)
where
    F: Future<Output = Option<u32>>,
{
    std::future::pending().await
}
