//! Follows changes of root directories.
//!
//! An event only says that something happened: whatever it is, the roots are scanned again, a moment after the last one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

/// Is the quiet time after the last event.
const QUIET: Duration = Duration::from_millis(40);
/// Is the longest time that a stream of events can put a scan off.
const LONGEST: Duration = Duration::from_millis(150);

enum Signal {
    Changed,
    Stop,
}

/// Watches roots on a thread of its own until it is stopped.
#[derive(Debug)]
pub struct Watch {
    signals: SyncSender<Signal>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Starts watching; `changed` is called on the watch's thread after each burst of events.
    ///
    /// A root that is missing is watched through its nearest existing ancestor, and one that was removed is found again
    /// when it comes back. `failed` is told when watching has become impossible.
    ///
    /// # Errors
    /// Fails when the system has no watches left or nothing can be watched.
    pub fn start(
        roots: Vec<PathBuf>,
        changed: impl Fn() + Send + 'static,
        failed: impl Fn(String) + Send + 'static,
    ) -> Result<Self, notify::Error> {
        let (signals, received) = sync_channel(1);
        let events = signals.clone();
        let watcher = notify::recommended_watcher(move |event: Result<Event, notify::Error>| {
            if event.is_ok_and(|event| is_own_look(&event)) {
                return;
            }
            // One waiting signal is enough: the scan looks at everything.
            drop(events.try_send(Signal::Changed));
        })?;
        let mut armed = Armed {
            watcher,
            roots,
            watched: BTreeSet::new(),
        };
        armed.arm()?;
        let thread = std::thread::Builder::new()
            .name("recipe-watch".to_owned())
            .spawn(move || follow(&mut armed, &received, &changed, &failed))
            .map_err(notify::Error::io)?;
        Ok(Self {
            signals,
            thread: Some(thread),
        })
    }

    /// Stops watching and waits for the thread.
    pub fn stop(mut self) {
        // A full channel means that the thread is about to look; it takes the next signal then.
        drop(self.signals.send(Signal::Stop));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// Tells that somebody only looked, as each scan does itself; everything else, errors included, means: scan again.
fn is_own_look(event: &Event) -> bool {
    match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => false,
        EventKind::Access(_) => !event.need_rescan(),
        _ => false,
    }
}

fn follow(armed: &mut Armed, signals: &Receiver<Signal>, changed: &impl Fn(), failed: &impl Fn(String)) {
    // What happened between the first scan and the first watch was not told by any event.
    changed();
    while let Ok(Signal::Changed) = signals.recv() {
        let first = Instant::now();
        loop {
            let left = LONGEST.saturating_sub(first.elapsed()).min(QUIET);
            match signals.recv_timeout(left) {
                Ok(Signal::Changed) if first.elapsed() < LONGEST => {}
                Ok(Signal::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(Signal::Changed) | Err(RecvTimeoutError::Timeout) => break,
            }
        }
        if let Err(error) = armed.arm() {
            failed(error.to_string());
            changed();
            return;
        }
        changed();
    }
}

struct Armed {
    watcher: RecommendedWatcher,
    roots: Vec<PathBuf>,
    watched: BTreeSet<PathBuf>,
}

impl Armed {
    /// Watches what should be watched now.
    ///
    /// The same path can be another directory than before, and then its watch is dead: all are set anew.
    fn arm(&mut self) -> Result<(), notify::Error> {
        let wanted: BTreeSet<PathBuf> = self.roots.iter().filter_map(|root| nearest(root)).collect();
        for path in std::mem::take(&mut self.watched) {
            // It may be gone already.
            drop(self.watcher.unwatch(&path));
        }
        for path in wanted {
            match self.watcher.watch(&path, RecursiveMode::NonRecursive) {
                Ok(()) => drop(self.watched.insert(path)),
                // It vanished since it was looked up; its ancestor will tell.
                Err(error) if matches!(error.kind, notify::ErrorKind::PathNotFound) => {
                    if let Some(parent) = path.parent().and_then(nearest) {
                        self.watcher.watch(&parent, RecursiveMode::NonRecursive)?;
                        self.watched.insert(parent);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn nearest(path: &Path) -> Option<PathBuf> {
    path.ancestors()
        .find(|ancestor| ancestor.is_dir())
        .map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use notify::event::{CreateKind, Flag};

    use super::*;

    #[test]
    fn f07_every_event_but_our_own_looking_means_scan_again() {
        let event = |kind| Event::new(kind);
        assert!(is_own_look(&event(EventKind::Access(AccessKind::Open(
            AccessMode::Any
        )))));
        assert!(is_own_look(&event(EventKind::Access(AccessKind::Close(
            AccessMode::Read
        )))));
        let others = [
            event(EventKind::Access(AccessKind::Close(AccessMode::Write))),
            event(EventKind::Create(CreateKind::File)),
            event(EventKind::Any),
            event(EventKind::Other),
            event(EventKind::Access(AccessKind::Any)).set_flag(Flag::Rescan),
        ];
        assert!(others.iter().all(|event| !is_own_look(event)));
    }
}
