//! What only the inside shows: query plans and file sizes.

use super::*;
use crate::activity::Lead;
use crate::runs::Conditions;
use pentad_model::event::NewEvent;
use pentad_model::{Actor, Event, EventBody};
use pentad_program::{Store, ThreadFilter};
use rusqlite::params;

const THREADS: i64 = 10_000;
const EVENTS: i64 = 100_000;

/// Fills the tables directly: the plans depend on sizes, not on what the rows say.
fn fill(connection: &Connection) {
    let thread = pentad_model::ThreadId::generate();
    let new = NewEvent {
        thread,
        at: Timestamp(0),
        caller: Actor::User.into(),
        call: None,
        run: None,
        body: EventBody::Note { text: "x".to_owned() },
    };
    let body = Event::place(new, 1, [0; 32]).encode().unwrap();
    connection
        .execute_batch("PRAGMA cache_size = -200000; BEGIN")
        .unwrap();
    connection
        .execute(
            "WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
             INSERT INTO thread (id, tail, agent, opened_by, created_at, updated_at, events)
             SELECT randomblob(16), hex(randomblob(4)), 'a' || (i % 3), 'user', i, i * 7919 % ?1, ?2 / ?1 FROM n",
            params![THREADS, EVENTS],
        )
        .unwrap();
    connection
        .execute(
            "WITH RECURSIVE n (i) AS (VALUES (0) UNION ALL SELECT i + 1 FROM n WHERE i < ?1 - 1)
             INSERT INTO event (thread, seq, at, clock, actor, kind, verb, run, hash, body)
             SELECT i % ?2 + 1, i / ?2 + 1, i, i, 'agent:a' || (i % 5), 'called', 'read', randomblob(16),
                    zeroblob(32), ?3 FROM n",
            params![EVENTS, THREADS, body],
        )
        .unwrap();
    connection
        .execute(
            "INSERT INTO run (id, tail, thread, status, start, state, updated_at, owner_pid, owner_born, owner_boot)
             SELECT randomblob(16), hex(randomblob(4)), thread, iif(position % 50, 'succeeded', 'running'), x'a0',
                    x'a0', 0, 0, 0, '' FROM event WHERE position % 4 = 0",
            [],
        )
        .unwrap();
    connection
        .execute(
            "INSERT INTO approval (id, tail, thread, actor, agent, act, input_hash, closure_hash, question,
                                   run_at_most, state, created_at)
             SELECT randomblob(16), hex(randomblob(4)), row, 'user', 'main', 'call:x', row, row, '', 0,
                    iif(row % 9, 'denied', 'open'), 0 FROM thread",
            [],
        )
        .unwrap();
    connection
        .execute_batch(
            "INSERT INTO event_words (rowid, text) SELECT row << 32, 'topic' FROM thread;
             UPDATE progress SET events_indexed = (SELECT max(position) FROM event),
                                 runs_indexed = (SELECT max(row) FROM run);
             COMMIT",
        )
        .unwrap();
}

fn plan(connection: &Connection, sql: &str) -> String {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let mut rows = statement.raw_query();
    let mut lines = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        lines.push(row.get::<_, String>("detail").unwrap());
    }
    lines.join("\n")
}

fn list_queries() -> Vec<String> {
    let mut queries: Vec<String> = [
        events::THREAD_SQL[0],
        events::THREAD_SQL[1],
        events::RUN_SQL,
        activity::FEED_SQL,
    ]
    .map(str::to_owned)
    .to_vec();
    for one in [false, true] {
        queries.push(threads::page_sql(one));
        queries.push(approvals::list_sql(one));
        for two in [false, true] {
            for lead in [Lead::Thread, Lead::Actor, Lead::Verb, Lead::All] {
                queries.push(activity::list_sql(lead, one, two));
            }
            for words in [false, true] {
                queries.push(runs::list_sql(Conditions {
                    words,
                    thread: one,
                    status: two,
                }));
            }
        }
    }
    queries
}

#[tokio::test]
async fn d15_no_list_sorts_or_scans_the_whole_database() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(dir.path(), JournalOptions::default()).unwrap();
    let connection = Connection::open(journal.database()).unwrap();
    fill(&connection);
    for sql in list_queries() {
        let plan = plan(&connection, &sql);
        assert!(!plan.contains("TEMP B-TREE"), "{sql}\n{plan}");
        // A list of everything walks its table backwards until its limit.
        let walks = |line: &str| line == "SCAN approval" || line.contains("VIRTUAL TABLE");
        let mut scans = plan.lines().filter(|line| line.starts_with("SCAN"));
        assert!(scans.all(walks), "{sql}\n{plan}");
    }
    let filter = ThreadFilter {
        query: Some("topic".to_owned()),
        limit: 5,
        ..ThreadFilter::default()
    };
    let hits = journal.threads(filter).await.unwrap();
    assert_eq!(hits[0].thread.updated_at, Timestamp(THREADS - 1));
    assert_eq!(hits.len(), 5);
    journal.close().await.unwrap();
}

#[tokio::test]
async fn d17_the_log_stays_bounded_and_freed_pages_go_back() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(dir.path(), JournalOptions::default()).unwrap();
    let wal = dir.path().join("pentad.db-wal");
    let junk = |n: u32| {
        move |scope: &mut Scope<'_>| {
            scope.connection.execute_batch(&format!(
            "CREATE TABLE IF NOT EXISTS junk (n, bytes); INSERT INTO junk VALUES ({n}, randomblob(100000))"
        ))?;
            Ok(())
        }
    };
    for n in 0..250 {
        journal.write(Durability::Crash, junk(n)).await.unwrap();
    }
    let size = std::fs::metadata(&wal).unwrap().len();
    assert!(size <= 16 << 20, "the log has {size} bytes");
    let file_size = || std::fs::metadata(journal.database()).unwrap().len();
    let drop_junk = |scope: &mut Scope<'_>| Ok(scope.connection.execute_batch("DROP TABLE junk")?);
    journal.write(Durability::Crash, drop_junk).await.unwrap();
    let full = file_size();
    let free = |connection: &Connection| {
        Ok(connection.pragma_query_value(None, "freelist_count", |r| r.get::<_, u32>(0))?)
    };
    let freed = journal.read(free).await.unwrap();
    for _ in 0..(2 * writer::WAL_LOOK) {
        journal.write(Durability::Crash, |_| Ok(())).await.unwrap();
    }
    assert!(
        journal.read(free).await.unwrap() < freed,
        "nothing was given back"
    );
    journal.close().await.unwrap();
    assert!(file_size() < full);
}
