//! Checking a thread's hash chain.

use pentad_model::{Event, ThreadId};
use rusqlite::{Connection, params};

use crate::codec::{self, signed, unsigned};
use crate::fault::Fault;
use crate::threads;

/// Events that one look checks, so that other reads have their turn.
const STRETCH: i64 = 2_000;

/// How far a chain is checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Checked {
    /// The thread.
    pub(crate) thread: ThreadId,
    /// The last number that fits.
    pub(crate) seq: u64,
    /// The hash of that event.
    pub(crate) hash: [u8; 32],
}

/// What one look found.
pub(crate) enum Look {
    /// There may be more.
    Fits(Checked),
    /// All fits.
    Whole,
    /// This number does not.
    Broken(u64),
}

impl Checked {
    /// Returns the state before the first event.
    pub(crate) const fn start(thread: ThreadId) -> Self {
        Self {
            thread,
            seq: 0,
            hash: [0; 32],
        }
    }

    /// Checks the next stretch: numbers without gaps, each event carrying the hash of the bytes before it, and the
    /// columns saying the same as the bytes. At the end the thread's record must agree too, or events were cut off.
    pub(crate) fn next(mut self, connection: &Connection) -> Result<Look, Fault> {
        let place = threads::place(connection, self.thread)?;
        let mut statement = connection.prepare_cached(
            "SELECT position, seq, hash, body FROM event WHERE thread = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
        )?;
        let mut rows = statement.query(params![place.row, signed(self.seq), STRETCH])?;
        let mut seen = 0;
        while let Some(row) = rows.next()? {
            seen += 1;
            let seq = unsigned(row.get("seq")?);
            let body = row.get_ref("body")?.as_blob().unwrap_or_default();
            let hash = Event::hash(body);
            let fits = codec::event(row.get("position")?, body).is_ok_and(|event| {
                event.seq == self.seq + 1 && event.thread == self.thread && event.prev == self.hash
            });
            if seq != self.seq + 1 || !fits || row.get::<_, Vec<u8>>("hash")? != hash {
                return Ok(Look::Broken(self.seq + 1));
            }
            self.seq = seq;
            self.hash = hash;
        }
        if seen == STRETCH {
            return Ok(Look::Fits(self));
        }
        // Both reads belong to one transaction, so no event can have come between them.
        match place.seq.cmp(&self.seq) {
            std::cmp::Ordering::Equal if place.prev == self.hash => Ok(Look::Whole),
            std::cmp::Ordering::Equal => Ok(Look::Broken(self.seq)),
            std::cmp::Ordering::Greater => Ok(Look::Broken(self.seq + 1)),
            std::cmp::Ordering::Less => Ok(Look::Broken(place.seq + 1)),
        }
    }
}
