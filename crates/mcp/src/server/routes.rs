//! The calls in flight on one connection, and which of them a word of the server belongs to.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use pentad_program::{Attendance, Progress};
use rmcp::model::ProgressToken;
use tokio::sync::{Notify, mpsc};

use super::log::{LogLine, LogStream, MAX_LINES, Origin};
use super::party::Party;
use super::pause::Pauses;

/// Reports that came before their call was registered and are kept for it.
const EARLY: usize = 32;
/// Reports that may wait for one call.
const BUFFER: usize = 16;

/// Where the notifications of one connection go.
#[derive(Debug, Default)]
pub struct Routes {
    table: Mutex<Table>,
    /// Woken when the server's list of tools has changed.
    pub list_changed: Notify,
}

/// A call that is being sent or waits for its answer.
#[derive(Debug)]
struct InFlight {
    lines: mpsc::Sender<LogLine>,
    /// Lines of its log, and lines on stderr, so far.
    said: [usize; 2],
    folder: PathBuf,
    behind: Behind,
}

/// Who waits for a call, as far as its server may reach them.
#[derive(Debug, Clone)]
pub struct Behind {
    /// Who may be asked; cancelled when the call ends.
    pub attendance: Attendance,
    /// The run, if the act is a call of one.
    pub origin: Option<Origin>,
    /// The times in which the server waits for a person.
    pub pauses: Arc<Pauses>,
}

#[derive(Debug, Default)]
struct Table {
    calls: HashMap<u64, InFlight>,
    next: u64,
    reports: HashMap<ProgressToken, mpsc::Sender<Progress>>,
    early: VecDeque<(ProgressToken, Progress)>,
}

impl Routes {
    /// Notes that a call is about to be sent for `party`: a server may ask before the sender knows that it was sent.
    pub fn enter(self: &Arc<Self>, party: Party<'_>) -> Presence {
        let (sender, lines) = mpsc::channel(2 * MAX_LINES);
        let behind = Behind {
            attendance: Attendance {
                cancel: party.attendance.cancel.child_token(),
                asker: party.attendance.asker.clone(),
                ..Attendance::default()
            },
            origin: party.origin.cloned(),
            pauses: Arc::default(),
        };
        let call = InFlight {
            lines: sender,
            said: [0; 2],
            folder: party.folder.to_owned(),
            behind: behind.clone(),
        };
        let mut table = self.lock();
        let number = table.next;
        table.next += 1;
        table.calls.insert(number, call);
        Presence {
            routes: Arc::clone(self),
            number,
            behind,
            lines,
        }
    }

    /// Returns the reports for `token` until the route is dropped.
    pub fn watch(self: &Arc<Self>, token: ProgressToken) -> ProgressRoute {
        let (sender, reports) = mpsc::channel(BUFFER);
        let mut table = self.lock();
        let (mine, others): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut table.early)
            .into_iter()
            .partition(|(of, _)| *of == token);
        table.early = others;
        for (_, report) in mine {
            // A full channel only means that a newer report follows.
            let _ = sender.try_send(report);
        }
        table.reports.insert(token.clone(), sender);
        ProgressRoute {
            routes: Arc::clone(self),
            token,
            reports,
        }
    }

    /// Gives a report to the call that it is of; one that came too early is kept for a while.
    pub fn report(&self, token: &ProgressToken, progress: Progress) {
        let mut table = self.lock();
        if let Some(reports) = table.reports.get(token) {
            let _ = reports.try_send(progress);
            return;
        }
        if table.early.len() == EARLY {
            table.early.pop_front();
        }
        table.early.push_back((token.clone(), progress));
    }

    /// Returns the folders that the calls in flight work in.
    pub fn folders(&self) -> BTreeSet<PathBuf> {
        let table = self.lock();
        table.calls.values().map(|call| call.folder.clone()).collect()
    }

    /// Gives a line to the call that it belongs to: the only one in flight. Of several nobody knows which.
    pub fn log(&self, line: LogLine) {
        let mut table = self.lock();
        let mut calls = table.calls.values_mut();
        if let (Some(call), None) = (calls.next(), calls.next()) {
            let said = match line.stream {
                LogStream::Stderr => &mut call.said[1],
                LogStream::Log | LogStream::Form => &mut call.said[0],
            };
            *said += 1;
            // A call keeps so many lines of each and no more.
            if *said <= MAX_LINES {
                let _ = call.lines.try_send(line);
            }
        }
    }

    /// Returns how many lines of a call's log and of stderr were more than are kept.
    fn unkept(&self, number: u64) -> [usize; 2] {
        let table = self.lock();
        table.calls.get(&number).map_or([0; 2], |call| {
            call.said.map(|said| said.saturating_sub(MAX_LINES))
        })
    }

    /// Returns who waits for the calls in flight.
    pub fn behind(&self) -> Vec<Behind> {
        let table = self.lock();
        table.calls.values().map(|call| call.behind.clone()).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reports of one call.
pub struct ProgressRoute {
    routes: Arc<Routes>,
    token: ProgressToken,
    /// Never closes while the route lives.
    pub reports: mpsc::Receiver<Progress>,
}

impl Drop for ProgressRoute {
    fn drop(&mut self) {
        self.routes.lock().reports.remove(&self.token);
    }
}

/// A call in flight, until it is dropped.
pub struct Presence {
    routes: Arc<Routes>,
    number: u64,
    behind: Behind,
    lines: mpsc::Receiver<LogLine>,
}

impl Presence {
    /// Returns the times in which the server waits for a person.
    pub fn pauses(&self) -> &Pauses {
        &self.behind.pauses
    }

    /// Takes what the server said meanwhile, as far as it belongs to this call, and how much more there was.
    pub fn take_lines(&mut self) -> Vec<LogLine> {
        let mut lines = Vec::new();
        while let Ok(line) = self.lines.try_recv() {
            lines.push(line);
        }
        let streams = [LogStream::Log, LogStream::Stderr];
        for (stream, unkept) in streams.into_iter().zip(self.routes.unkept(self.number)) {
            if unkept > 0 {
                lines.push(LogLine {
                    stream,
                    level: "warning",
                    text: format!("{unkept} further lines were not kept"),
                });
            }
        }
        lines
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.routes.lock().calls.remove(&self.number);
        // What is still asked for this call is answered by nobody any more.
        self.behind.attendance.cancel.cancel();
    }
}
