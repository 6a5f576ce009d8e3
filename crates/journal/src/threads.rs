//! Threads: opening, finding, titling and listing.

use pentad_model::thread::Thread;
use pentad_model::{Id, IdEnding, ThreadId, Timestamp};
use pentad_program::{NewThread, StoreError, ThreadFilter, ThreadHit};
use rusqlite::{Connection, OptionalExtension, Row, ToSql, named_params, params};

use crate::codec::{self, signed, tail, tail_of, unsigned};
use crate::fault::Fault;
use crate::marks::Mark;
use crate::search;
use crate::writer::Scope;

const COLUMNS: &str = "row, id, agent, opened_by, title, parent, cwd, created_at, updated_at, events";

/// Reads a thread's columns.
pub(crate) fn from_row(row: &Row<'_>) -> Result<Thread, Fault> {
    Ok(Thread {
        id: ThreadId(codec::id(row, "id")?),
        agent: codec::parsed(row, "agent")?,
        opened_by: codec::parsed(row, "opened_by")?,
        title: row.get("title")?,
        parent: codec::optional_id(row, "parent")?.map(ThreadId),
        cwd: row.get("cwd")?,
        created_at: Timestamp(row.get("created_at")?),
        updated_at: Timestamp(row.get("updated_at")?),
        events: unsigned(row.get("events")?),
    })
}

/// Returns the number that stands for a thread in the other tables.
pub(crate) fn row_of(connection: &Connection, thread: ThreadId) -> Result<i64, Fault> {
    let row = connection
        .prepare_cached("SELECT row FROM thread WHERE id = ?1")?
        .query_one([thread.0.as_bytes()], |row| row.get(0))
        .optional()?;
    row.ok_or_else(|| StoreError::NotFound(format!("there is no thread {thread}")).into())
}

/// Returns the id of the thread in a row.
pub(crate) fn id_of(connection: &Connection, row: i64) -> Result<ThreadId, Fault> {
    let bytes = connection
        .prepare_cached("SELECT id FROM thread WHERE row = ?1")?
        .query_one([row], |found| found.get(0))?;
    Ok(ThreadId(Id::from_bytes(bytes)))
}

/// Returns the thread with a key.
pub(crate) fn with_key(connection: &Connection, key: &str) -> Result<Option<Thread>, Fault> {
    let mut statement = connection.prepare_cached(&format!("SELECT {COLUMNS} FROM thread WHERE key = ?1"))?;
    statement.query_and_then([key], from_row)?.next().transpose()
}

/// Returns the thread with the key, or makes it.
pub(crate) fn open(scope: &mut Scope<'_>, new: &NewThread) -> Result<Thread, Fault> {
    if let Some(key) = &new.key
        && let Some(found) = with_key(scope.connection, key)?
    {
        return Ok(found);
    }
    let made = scope
        .connection
        .prepare_cached(
            "INSERT INTO thread (id, tail, key, agent, opened_by, title, parent, cwd, created_at, updated_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9) ON CONFLICT (id) DO NOTHING",
        )?
        .execute(params![
            new.id.0.as_bytes(),
            tail(new.id.0),
            new.key,
            new.agent.as_str(),
            new.opened_by.to_string(),
            new.title,
            new.parent.map(|p| *p.0.as_bytes()),
            new.cwd,
            new.at.0,
        ])?;
    if made == 0 {
        let text = format!("there is a thread {} already; make one with another id", new.id);
        return Err(StoreError::Conflict(text).into());
    }
    if let Some(title) = &new.title {
        search::index::add_title(scope.connection, scope.connection.last_insert_rowid(), title)?;
    }
    Ok(Thread {
        id: new.id,
        agent: new.agent.clone(),
        opened_by: new.opened_by.clone(),
        title: new.title.clone(),
        parent: new.parent,
        cwd: new.cwd.clone(),
        created_at: new.at,
        updated_at: new.at,
        events: 0,
    })
}

/// Gives a thread a title if it has none.
pub(crate) fn set_title(scope: &mut Scope<'_>, thread: ThreadId, title: &str) -> Result<(), Fault> {
    let row = row_of(scope.connection, thread)?;
    let changed = scope
        .connection
        .prepare_cached("UPDATE thread SET title = ?2 WHERE row = ?1 AND title IS NULL")?
        .execute(params![row, title])?;
    if changed > 0 {
        search::index::add_title(scope.connection, row, title)?;
    }
    Ok(())
}

/// Finds a thread by an ending of its id.
pub(crate) fn find(connection: &Connection, ending: &IdEnding) -> Result<Thread, Fault> {
    let mut statement =
        connection.prepare_cached(&format!("SELECT {COLUMNS} FROM thread WHERE tail = ?1"))?;
    let mut found = Vec::new();
    for thread in statement.query_and_then([tail_of(ending.as_str())], from_row)? {
        let thread = thread?;
        if ending.matches(thread.id.0) {
            found.push(thread);
        }
    }
    only(found, ending.as_str(), "thread")
}

/// Returns the only one of what an ending matched.
pub(crate) fn only<T>(mut found: Vec<T>, ending: &str, what: &str) -> Result<T, Fault> {
    let count = found.len();
    match found.pop() {
        Some(one) if count == 1 => Ok(one),
        Some(_) => Err(StoreError::Ambiguous {
            ending: ending.to_owned(),
            count,
        }
        .into()),
        None => Err(StoreError::NotFound(format!("there is no {what} with the id '{ending}'")).into()),
    }
}

/// Returns the query of a page of threads.
pub(crate) fn page_sql(agent: bool) -> String {
    let agent = if agent { "agent = :agent AND" } else { "" };
    format!(
        "SELECT {COLUMNS} FROM thread WHERE {agent} (updated_at, id) < (:at, :id)
         ORDER BY updated_at DESC, id DESC"
    )
}

/// Lists threads, newest first.
pub(crate) fn list(connection: &Connection, filter: &ThreadFilter) -> Result<Vec<ThreadHit>, Fault> {
    let wanted = match &filter.query {
        None => None,
        Some(query) => Some(search::query::Words::parse(query)?),
    };
    let limit = filter.limit.min(codec::MAX_LIMIT);
    let matching = match &wanted {
        None => None,
        Some(words) => {
            let rows = words.threads(connection)?;
            if rows.is_empty() {
                return Ok(Vec::new());
            }
            Some(rows)
        }
    };
    let mark = filter.after.as_deref().map(Mark::parse).transpose()?;
    let page = walk(connection, filter, mark, matching.as_deref(), limit)?;
    let mut hits = Vec::with_capacity(page.len());
    for (row, thread) in page {
        let snippet = match &wanted {
            None => None,
            Some(words) => words.snippet(connection, row, thread.title.as_deref())?,
        };
        hits.push(ThreadHit {
            mark: Mark::of(thread.updated_at, thread.id).text(),
            thread,
            snippet,
        });
    }
    Ok(hits)
}

/// Walks the list from a mark, taking only the rows that a search found (ascending), where there is a search.
fn walk(
    connection: &Connection,
    filter: &ThreadFilter,
    mark: Option<Mark>,
    matching: Option<&[i64]>,
    limit: usize,
) -> Result<Vec<(i64, Thread)>, Fault> {
    let mut page = Vec::new();
    if limit == 0 {
        return Ok(page);
    }
    let (at, id) = mark.map_or_else(
        || (i64::MAX, vec![0xFF; 17]),
        |m| (m.updated_at, m.id.0.as_bytes().to_vec()),
    );
    let mut statement = connection.prepare_cached(&page_sql(filter.agent.is_some()))?;
    let agent = filter.agent.as_ref().map(|a| a.as_str());
    let mut values: Vec<(&str, &dyn ToSql)> = named_params! {":at": at, ":id": id}.to_vec();
    if agent.is_some() {
        values.push((":agent", &agent));
    }
    let mut rows = statement.query(values.as_slice())?;
    while let Some(row) = rows.next()? {
        let number: i64 = row.get("row")?;
        if matching.is_some_and(|found| found.binary_search(&number).is_err()) {
            continue;
        }
        page.push((number, from_row(row)?));
        if page.len() == limit {
            break;
        }
    }
    Ok(page)
}

/// What an append must know of a thread.
pub(crate) struct Place {
    pub(crate) thread: ThreadId,
    pub(crate) row: i64,
    pub(crate) seq: u64,
    pub(crate) prev: [u8; 32],
    pub(crate) updated_at: i64,
}

/// Reads where a thread's next event goes.
pub(crate) fn place(connection: &Connection, thread: ThreadId) -> Result<Place, Fault> {
    let place = connection
        .prepare_cached("SELECT row, events, head, updated_at FROM thread WHERE id = ?1")?
        .query_one([thread.0.as_bytes()], |row| {
            Ok(Place {
                thread,
                row: row.get(0)?,
                seq: unsigned(row.get(1)?),
                prev: row.get(2)?,
                updated_at: row.get(3)?,
            })
        })
        .optional()?;
    place.ok_or_else(|| {
        StoreError::NotFound(format!(
            "there is no thread {thread}; open it before its first event"
        ))
        .into()
    })
}

/// Writes where a thread's next event will go.
pub(crate) fn move_head(connection: &Connection, place: &Place) -> Result<(), Fault> {
    connection
        .prepare_cached("UPDATE thread SET events = ?2, head = ?3, updated_at = ?4 WHERE row = ?1")?
        .execute(params![
            place.row,
            signed(place.seq),
            place.prev,
            place.updated_at
        ])?;
    Ok(())
}
