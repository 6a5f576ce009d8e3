//! Steps: appending to a run's chain, reading and checking it.

use pentad_model::RunId;
use pentad_model::step::{NewStep, Step};
use pentad_program::{StepPage, StoreError};
use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};

use crate::codec::{self, MAX_PAGE_BYTES, signed, unsigned};
use crate::fault::Fault;
use crate::record::{self, Record};
use crate::writer::Scope;

/// Largest step that an executor or a sender may have written. Payloads over 64 KiB belong into blobs before they come
/// here; what a child ended with is in its record and travels as it is.
pub(crate) const MAX_STEP_BYTES: usize = 1 << 20;
/// Steps that one look checks, so that other reads have their turn.
const STRETCH: i64 = 2_000;

/// Where a chain ends: the number and the hash of its last step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Last {
    pub(crate) seq: u64,
    #[serde(with = "serde_bytes")]
    pub(crate) hash: [u8; 32],
}

/// Returns where a run's chain ends.
pub(crate) fn last(connection: &Connection, run: i64) -> Result<Last, Fault> {
    let mut statement =
        connection.prepare_cached("SELECT seq, body FROM step WHERE run = ?1 ORDER BY seq DESC LIMIT 1")?;
    let mut rows = statement.query([run])?;
    Ok(match rows.next()? {
        None => Last::default(),
        Some(row) => Last {
            seq: unsigned(row.get(0)?),
            hash: Step::hash(row.get_ref(1)?.as_blob().unwrap_or_default()),
        },
    })
}

/// How large steps may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    /// At most [`MAX_STEP_BYTES`].
    Step,
    /// As large as what was accepted elsewhere.
    Accepted,
}

/// Appends steps to a run's chain, and moves its end.
pub(crate) fn append(
    scope: &mut Scope<'_>,
    run: &Record,
    last: &mut Last,
    new: impl IntoIterator<Item = NewStep>,
    bound: Bound,
) -> Result<Vec<Step>, Fault> {
    let mut placed = Vec::new();
    for new in new {
        let mut step = Step::place(new, run.id, last.seq + 1, last.hash);
        let bytes = step.encode()?;
        if bound == Bound::Step && bytes.len() > MAX_STEP_BYTES {
            let text = format!(
                "a step '{}' of {} bytes is larger than the {MAX_STEP_BYTES} bytes that the journal takes; put its \
                 payload into a blob",
                step.body.word(),
                bytes.len()
            );
            return Err(StoreError::Conflict(text).into());
        }
        step.journal = scope.next_position()?;
        scope
            .connection
            .prepare_cached("INSERT INTO step (position, run, seq, body) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![signed(step.journal), run.row, signed(step.seq), bytes])?;
        *last = Last {
            seq: step.seq,
            hash: Step::hash(&bytes),
        };
        placed.push(step);
    }
    Ok(placed)
}

/// The queries of a run's steps and of all runs' steps.
pub(crate) const RUN_SQL: &str =
    "SELECT position, body FROM step WHERE run = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3";
pub(crate) const FEED_SQL: &str =
    "SELECT position, body FROM step WHERE position > ?1 ORDER BY position LIMIT ?2";

fn page(
    connection: &Connection,
    sql: &str,
    values: impl rusqlite::Params,
    limit: usize,
) -> Result<StepPage, Fault> {
    let limit = limit.min(codec::MAX_LIMIT);
    let mut page = StepPage::default();
    let mut bytes = 0;
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(values)?;
    while let Some(row) = rows.next()? {
        if page.steps.len() >= limit || bytes > MAX_PAGE_BYTES {
            page.more = true;
            break;
        }
        let body = row.get_ref(1)?.as_blob().unwrap_or_default();
        bytes += body.len();
        page.steps.push(codec::step(row.get(0)?, body)?);
    }
    Ok(page)
}

/// Reads a run's steps after a number.
pub(crate) fn of_run(
    connection: &Connection,
    run: RunId,
    after: u64,
    limit: usize,
) -> Result<StepPage, Fault> {
    let row = record::row_of(connection, run)?;
    let one_more = codec::limit(limit) + 1;
    page(connection, RUN_SQL, params![row, signed(after), one_more], limit)
}

/// Reads the steps of all runs after a position.
pub(crate) fn feed(connection: &Connection, after: u64, limit: usize) -> Result<Vec<Step>, Fault> {
    let values = params![signed(after), codec::limit(limit)];
    Ok(page(connection, FEED_SQL, values, limit)?.steps)
}

/// What one look at a chain found.
pub(crate) enum Look {
    /// There may be more after this step.
    Fits(Last),
    /// All fits.
    Whole,
    /// This number does not.
    Broken(u64),
}

/// Checks the next stretch of a run's chain: numbers without gaps, each step carrying the hash of the bytes before it. At
/// the end of a run that has ended its record must agree too, or steps were cut off.
pub(crate) fn check(connection: &Connection, run: RunId, mut checked: Last) -> Result<Look, Fault> {
    let record = record::get(connection, run)?;
    let mut statement = connection.prepare_cached(
        "SELECT position, seq, body FROM step WHERE run = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
    )?;
    let mut rows = statement.query(params![record.row, signed(checked.seq), STRETCH])?;
    let mut seen = 0;
    while let Some(row) = rows.next()? {
        seen += 1;
        let seq = unsigned(row.get("seq")?);
        let body = row.get_ref("body")?.as_blob().unwrap_or_default();
        let fits = codec::step(row.get("position")?, body)
            .is_ok_and(|step| step.seq == seq && step.run == run && step.prev == checked.hash);
        if seq != checked.seq + 1 || !fits {
            return Ok(Look::Broken(checked.seq + 1));
        }
        checked = Last {
            seq,
            hash: Step::hash(body),
        };
    }
    if seen == STRETCH {
        return Ok(Look::Fits(checked));
    }
    if !record.status().is_settled() {
        return Ok(Look::Whole);
    }
    let end = record.state.last.unwrap_or_default();
    Ok(match end.seq.cmp(&checked.seq) {
        std::cmp::Ordering::Equal if end.hash == checked.hash => Look::Whole,
        std::cmp::Ordering::Equal => Look::Broken(checked.seq),
        std::cmp::Ordering::Greater => Look::Broken(checked.seq + 1),
        std::cmp::Ordering::Less => Look::Broken(end.seq + 1),
    })
}
