//! What only the inside shows: query plans and file sizes.

use super::*;
use crate::activity::Lead;
use crate::runs::{Conditions, Status};
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
            "INSERT INTO run (id, tail, thread, parent, status, epoch, start, state, updated_at)
             SELECT randomblob(16), hex(randomblob(4)), thread, iif(position % 3, NULL, randomblob(16)),
                    iif(position % 50, 'succeeded', iif(position % 7, 'waiting', 'running')), position % 5, x'a0',
                    x'a0', 0 FROM event WHERE position % 4 = 0",
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
        activity::HEAD_SQL,
        steps::RUN_SQL,
        steps::FEED_SQL,
        record::FIND_SQL,
        advance::QUEUED_SQL,
        advance::MAIL_SQL[0],
        advance::MAIL_SQL[1],
        advance::MAIL_SQL[2],
        executors::HELD_SQL[0],
        executors::HELD_SQL[1],
        waits::KEY_SQL,
        waits::DUE_SQL,
        waits::NEXT_SQL,
        runs::COUNT_SQL[0],
        runs::COUNT_SQL[1],
        evidence::STEP_SQL,
        settle::LIVE_CHILDREN_SQL,
        cancel::LIVE_BELOW_SQL,
    ]
    .map(str::to_owned)
    .to_vec();
    queries.push(runs::children_sql());
    for one in [false, true] {
        queries.push(threads::page_sql(one));
        queries.push(approvals::list_sql(one));
        for two in [false, true] {
            for lead in [Lead::Thread, Lead::Actor, Lead::Verb, Lead::All] {
                queries.push(activity::list_sql(lead, one, two));
            }
            for words in [false, true] {
                for status in [None, Some(Status::Succeeded), Some(Status::Indexed)] {
                    queries.push(runs::list_sql(Conditions {
                        words,
                        thread: one,
                        status,
                    }));
                }
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
        // A list of everything walks its table backwards until its limit; the rest are no tables of the database.
        let walks = |line: &str| {
            ["SCAN approval", "SCAN CONSTANT ROW", "SCAN below"].contains(&line)
                || line.contains("VIRTUAL TABLE")
        };
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
    for n in 0..500 {
        let junk = move |scope: &mut Scope<'_>| {
            Ok(scope.connection.execute_batch(&format!(
                "CREATE TABLE IF NOT EXISTS junk (n, bytes); INSERT INTO junk VALUES ({n}, randomblob(100000))"
            ))?)
        };
        journal.write(Durability::Crash, junk).await.unwrap();
    }
    let size = std::fs::metadata(dir.path().join("pentad.db-wal")).unwrap().len();
    assert!(size <= 32 << 20, "the log has {size} bytes");
    let drop_junk = |scope: &mut Scope<'_>| Ok(scope.connection.execute_batch("DROP TABLE junk")?);
    journal.write(Durability::Crash, drop_junk).await.unwrap();
    let pages = |connection: &Connection| {
        let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, u32>(0));
        Ok((number("page_count")?, number("freelist_count")?))
    };
    let (all, free) = journal.read(pages).await.unwrap();
    for _ in 0..(2 * writer::WAL_LOOK) {
        journal.write(Durability::Crash, |_| Ok(())).await.unwrap();
    }
    let (all_after, free_after) = journal.read(pages).await.unwrap();
    assert!(
        all_after < all && free_after < free,
        "{all} {free} {all_after} {free_after}"
    );
    journal.close().await.unwrap();
}

#[tokio::test]
async fn only_what_must_survive_power_loss_is_synced() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(dir.path(), JournalOptions::default()).unwrap();
    let synchronous = |scope: &mut Scope<'_>| {
        let level = scope
            .connection
            .pragma_query_value(None, "synchronous", |row| row.get::<_, i32>(0));
        Ok(level?)
    };
    for (durability, level) in [
        (Durability::Crash, 1),
        (Durability::Power, 2),
        (Durability::Power, 2),
        (Durability::Crash, 1),
    ] {
        assert_eq!(journal.write(durability, synchronous).await.unwrap(), level);
    }
}

#[tokio::test]
async fn a_lock_that_is_never_released_fails_all_who_wait_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let options = JournalOptions {
        busy_timeout: Duration::from_millis(200),
        ..JournalOptions::default()
    };
    let journal = Journal::open(dir.path(), options).unwrap();
    let other = Connection::open(journal.database()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let waiting: Vec<_> = (0..6)
        .map(|_| {
            let journal = journal.clone();
            tokio::spawn(async move { journal.write(Durability::Power, |_| Ok(())).await })
        })
        .collect();
    for one in waiting {
        let Err(StoreError::Unusable(text)) = one.await.unwrap() else {
            panic!("it was written");
        };
        assert!(
            text.ends_with("kept locked by another process; repeat, or end the process that holds it open")
        );
    }
    other.execute_batch("ROLLBACK").unwrap();
    journal.write(Durability::Power, |_| Ok(())).await.unwrap();
    journal.close().await.unwrap();
}
