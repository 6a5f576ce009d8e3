//! The one thread that writes, and group commit.
//!
//! Requests wait in a bounded queue. The thread takes what is there into one transaction: a batch with any request of
//! class power is synced before its members are answered, any other is not. Each member has its own savepoint, so one
//! that fails takes nothing else with it. Nothing is remembered from one transaction to the next about what the tables
//! hold: another process may have written in between.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pentad_fail::{Point, point};
use pentad_program::{Durability, StoreError};
use rusqlite::Connection;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot, watch};

use crate::activity;
use crate::checkpoint::Checkpoints;
use crate::connection;
use crate::executors::{self, Standing};
use crate::fault::Fault;
use crate::options::{JournalOptions, Owner};
use crate::search;

/// Most requests of one transaction.
const BATCH: usize = 128;
/// Events of this process after which a moment without requests is used to collect their words.
const WORDS_BEHIND: u64 = 256;
/// Events whose words are collected between two looks at the queue in such a moment.
const WORDS_AT_REST: u64 = 128;
/// Events after which their words are collected in any case, so that no search has too much to do first.
const WORDS_TOO_FAR: u64 = 4096;
/// How long the queue is empty before the writer does what nobody waits for.
const REST: Duration = Duration::from_millis(100);
/// A WAL file beyond this is emptied even if readers must be waited for.
const WAL_LIMIT_BYTES: u64 = 64 << 20;
/// Transactions between two looks at the WAL file's size.
pub(crate) const WAL_LOOK: u32 = 256;
/// How long emptying the WAL waits for readers.
const CHECKPOINT_WAIT: Duration = Duration::from_millis(100);
/// Free pages that are given back to the file system at once.
const FREED_PAGES: u32 = 256;

/// What a unit of work finds inside its transaction.
pub(crate) struct Scope<'c> {
    /// The connection, in a transaction.
    pub(crate) connection: &'c Connection,
    /// The process whose runs these are.
    pub(crate) owner: &'c Owner,
    /// The journal's clock as of the last event, once it was looked up.
    pub(crate) clock: Option<i64>,
    /// Whether this transaction has seen that its executor is not retired.
    pub(crate) listed: bool,
    /// What others learn when the transaction is committed.
    pub(crate) news: News,
}

/// What a transaction leads to beside the rows that it writes; a member that fails takes its share back.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct News {
    /// The newest position of an event or a step, once it was looked up or given.
    pub(crate) head: Option<u64>,
    /// How many events were written.
    pub(crate) appended: u64,
    /// Whether an executor may have something to do that it had not before.
    pub(crate) stirred: bool,
    /// Which executor this journal is.
    pub(crate) standing: Standing,
}

impl Scope<'_> {
    /// Gives the next position, which events and steps share.
    pub(crate) fn next_position(&mut self) -> Result<u64, Fault> {
        let last = match self.news.head {
            Some(head) => head,
            None => activity::head(self.connection)?,
        };
        self.news.head = Some(last + 1);
        Ok(last + 1)
    }
}

/// What a journal tells those who wait for it.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    /// The newest position that this process knows of; nothing when closed.
    pub(crate) head: watch::Sender<Option<u64>>,
    /// How often executors got something to do, as far as this process knows; nothing when closed.
    pub(crate) stirs: watch::Sender<Option<u64>>,
    /// The epoch of this journal; 0 as long as it has none.
    pub(crate) epoch: Arc<AtomicU64>,
}

/// A request to the writer.
pub(crate) trait Member: Send {
    /// What it must survive.
    fn durability(&self) -> Durability;
    /// Does the work; may be called again when the whole transaction was lost.
    fn perform(&mut self, scope: &mut Scope<'_>) -> Result<(), Lost>;
    /// Answers, after the commit or instead of it.
    fn answer(self: Box<Self>, failure: Option<StoreError>);
}

/// Why a member's work does not count.
pub(crate) enum Lost {
    /// It failed; the member holds the error itself.
    Refused,
    /// The storage failed, and with it perhaps the whole transaction.
    Storage(Fault),
}

struct Request<T, W> {
    durability: Durability,
    work: W,
    database: PathBuf,
    outcome: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, W> Member for Request<T, W>
where
    T: Send,
    W: FnMut(&mut Scope<'_>) -> Result<T, Fault> + Send,
{
    fn durability(&self) -> Durability {
        self.durability
    }

    fn perform(&mut self, scope: &mut Scope<'_>) -> Result<(), Lost> {
        match (self.work)(scope) {
            Ok(value) => {
                self.outcome = Some(Ok(value));
                Ok(())
            }
            Err(fault) if fault.is_storage_failure() => Err(Lost::Storage(fault)),
            Err(fault) => {
                self.outcome = Some(Err(fault.into_store(&self.database)));
                Err(Lost::Refused)
            }
        }
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let outcome = match (failure, self.outcome) {
            (Some(error), _) => Err(error),
            (None, Some(outcome)) => outcome,
            (None, None) => Err(StoreError::Closed),
        };
        // Whoever asked may be gone; what was committed stays.
        let _unheard = self.reply.send(outcome);
    }
}

/// Returns a request for the writer and the place of its answer.
pub(crate) fn request<T, W>(
    database: PathBuf,
    durability: Durability,
    work: W,
) -> (Box<dyn Member>, oneshot::Receiver<Result<T, StoreError>>)
where
    T: Send + 'static,
    W: FnMut(&mut Scope<'_>) -> Result<T, Fault> + Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    let member = Request {
        durability,
        work,
        database,
        outcome: None,
        reply,
    };
    (Box::new(member), answer)
}

/// The writer's own state.
pub(crate) struct Writer {
    connection: Connection,
    database: PathBuf,
    owner: Owner,
    known: Known,
    standing: Standing,
    busy: Duration,
    synchronous: Option<Durability>,
    words_behind: u64,
    until_wal_look: u32,
    checkpoints: Checkpoints,
    clock: Runtime,
}

impl Writer {
    /// Returns the state of a writer on this connection.
    pub(crate) fn new(
        connection: Connection,
        database: PathBuf,
        options: &JournalOptions,
        known: Known,
        clock: Runtime,
    ) -> Self {
        let checkpoints = Checkpoints::of(&database);
        Self {
            connection,
            database,
            owner: options.owner.clone(),
            known,
            standing: Standing::default(),
            busy: options.busy_timeout,
            synchronous: None,
            words_behind: 0,
            until_wal_look: WAL_LOOK,
            checkpoints,
            clock,
        }
    }

    /// Serves requests until all senders are gone, then empties the WAL and closes.
    pub(crate) fn serve(mut self, requests: &mut mpsc::Receiver<Box<dyn Member>>) -> Result<(), StoreError> {
        while let Some(first) = self.next(requests) {
            let mut batch = vec![first];
            while batch.len() < BATCH
                && let Ok(next) = requests.try_recv()
            {
                batch.push(next);
            }
            self.commit(batch);
            self.checkpoints.after_batch(&self.connection);
            self.tidy();
        }
        self.finish()
    }

    /// Waits for a request, and uses the time if there is enough of it; nothing when all senders are gone.
    fn next(&mut self, requests: &mut mpsc::Receiver<Box<dyn Member>>) -> Option<Box<dyn Member>> {
        if self.words_behind >= WORDS_BEHIND {
            let waiting = async { tokio::time::timeout(REST, requests.recv()).await };
            match self.clock.block_on(waiting) {
                Ok(next) => return next,
                Err(_) => self.rest(requests),
            }
        }
        requests.blocking_recv()
    }

    /// Collects words until there are none left or somebody waits.
    fn rest(&mut self, requests: &mpsc::Receiver<Box<dyn Member>>) {
        while self.words_behind > 0 && requests.is_empty() && !requests.is_closed() {
            self.collect_words(WORDS_AT_REST);
        }
        self.checkpoints.at_rest(&self.connection);
    }

    fn commit(&mut self, mut batch: Vec<Box<dyn Member>>) {
        match self.attempt(&mut batch) {
            Ok(()) => batch.into_iter().for_each(|member| member.answer(None)),
            // One member may have been too much for the disk: each gets its own transaction.
            Err(fault) if batch.len() > 1 && !fault.is_busy() => {
                for member in batch {
                    let mut alone = [member];
                    let failure = self.attempt(&mut alone).err();
                    self.answer_all(alone, failure.as_ref());
                }
            }
            Err(fault) => self.answer_all(batch, Some(&fault)),
        }
    }

    fn answer_all(&self, batch: impl IntoIterator<Item = Box<dyn Member>>, failure: Option<&Fault>) {
        for member in batch {
            member.answer(failure.map(|fault| fault.shared(&self.database)));
        }
    }

    /// Runs a batch in one transaction; an error means that nothing of it was kept.
    fn attempt(&mut self, batch: &mut [Box<dyn Member>]) -> Result<(), Fault> {
        let power = batch.iter().any(|m| m.durability() == Durability::Power);
        self.synchronise(if power {
            Durability::Power
        } else {
            Durability::Crash
        })?;
        let tried = self.transact(batch);
        if tried.is_err() && !self.connection.is_autocommit() {
            // If even this fails the next BEGIN tells.
            let _still_open = self.connection.execute_batch("ROLLBACK");
        }
        let (news, stirs) = tried?;
        self.words_behind += news.appended;
        self.standing = news.standing;
        let epoch = news.standing.epoch.unwrap_or(0);
        self.known.epoch.store(epoch, Ordering::Relaxed);
        if let Some(head) = news.head {
            self.known.head.send_if_modified(|known| advance(known, head));
        }
        if let Some(stirs) = stirs {
            self.known.stirs.send_if_modified(|known| advance(known, stirs));
        }
        Ok(())
    }

    fn transact(&self, batch: &mut [Box<dyn Member>]) -> Result<(News, Option<u64>), Fault> {
        let connection = &self.connection;
        point(Point::JournalBegin);
        run(connection, "BEGIN IMMEDIATE")?;
        let mut scope = Scope {
            connection,
            owner: &self.owner,
            clock: None,
            listed: false,
            news: News {
                standing: self.standing,
                ..News::default()
            },
        };
        // One that is alone needs no savepoint, for which SQLite would keep a copy of each page: all is undone with it.
        let alone = batch.len() == 1;
        for member in batch {
            if !alone {
                run(connection, "SAVEPOINT member")?;
            }
            let before = scope.news;
            match member.perform(&mut scope) {
                Ok(()) if alone => {}
                Ok(()) => run(connection, "RELEASE member")?,
                Err(Lost::Storage(fault)) => return Err(fault),
                Err(Lost::Refused) => {
                    if connection.is_autocommit() {
                        return Err(StoreError::NotWritten(self.database.display().to_string()).into());
                    }
                    if alone {
                        run(connection, "ROLLBACK")?;
                        return Ok((before, None));
                    }
                    run(connection, "ROLLBACK TO member")?;
                    run(connection, "RELEASE member")?;
                    scope.news = before;
                    scope.clock = None;
                    scope.listed = false;
                }
            }
        }
        let stirs = if scope.news.stirred {
            Some(executors::count_stir(connection)?)
        } else {
            None
        };
        point(Point::JournalCommitBefore);
        run(connection, "COMMIT")?;
        point(Point::JournalCommitAfter);
        Ok((scope.news, stirs))
    }

    fn synchronise(&mut self, durability: Durability) -> Result<(), Fault> {
        if self.synchronous != Some(durability) {
            self.connection.execute_batch(match durability {
                Durability::Crash => "PRAGMA synchronous = NORMAL",
                Durability::Power => "PRAGMA synchronous = FULL",
            })?;
            self.synchronous = Some(durability);
        }
        Ok(())
    }

    /// Does what no single request pays for and what cannot wait for a rest. Failures are no one's: the next search or
    /// look tries again.
    fn tidy(&mut self) {
        if self.words_behind >= WORDS_TOO_FAR {
            self.collect_words(WORDS_TOO_FAR / 4);
        }
        self.until_wal_look = self.until_wal_look.saturating_sub(1);
        if self.until_wal_look == 0 {
            self.until_wal_look = WAL_LOOK;
            if let Err(error) = self.bound_files() {
                tracing::warn!(%error, "the write-ahead log could not be emptied; the next look tries again");
            }
        }
    }

    /// Collects the words of at most `stretch` events; what fails is left to the next search.
    fn collect_words(&mut self, stretch: u64) {
        self.words_behind = self.words_behind.saturating_sub(stretch);
        if let Err(error) = self.collect(stretch) {
            tracing::warn!(%error, "the words of new events could not be collected; the next search does it");
        }
    }

    fn collect(&mut self, stretch: u64) -> Result<(), Fault> {
        self.synchronise(Durability::Crash)?;
        point(Point::JournalWordsBegin);
        run(&self.connection, "BEGIN IMMEDIATE")?;
        let done = search::index::collect(&self.connection, stretch).and_then(|_| {
            point(Point::JournalWordsCommitBefore);
            run(&self.connection, "COMMIT")?;
            point(Point::JournalWordsCommitAfter);
            Ok(())
        });
        if done.is_err() && !self.connection.is_autocommit() {
            run(&self.connection, "ROLLBACK")?;
        }
        done
    }

    /// Keeps the WAL bounded when readers never let it be reused, and gives freed pages back.
    fn bound_files(&mut self) -> Result<(), Fault> {
        let mut wal = self.database.clone().into_os_string();
        wal.push("-wal");
        let size = std::fs::metadata(PathBuf::from(wal)).map_or(0, |m| m.len());
        if size > WAL_LIMIT_BYTES {
            self.checkpoint()?;
        }
        let free: u32 = self
            .connection
            .pragma_query_value(None, "freelist_count", |row| row.get(0))?;
        if free > FREED_PAGES {
            // It frees one page with each step.
            let mut statement = self
                .connection
                .prepare(&format!("PRAGMA incremental_vacuum({FREED_PAGES})"))?;
            let mut steps = statement.query([])?;
            while steps.next()?.is_some() {}
        }
        Ok(())
    }

    /// Empties the WAL unless somebody reads from it for longer than a moment.
    fn checkpoint(&mut self) -> Result<(), Fault> {
        connection::wait_at_most(&mut self.connection, CHECKPOINT_WAIT)?;
        let emptied = self
            .connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        connection::wait_at_most(&mut self.connection, self.busy)?;
        Ok(emptied?)
    }

    fn finish(mut self) -> Result<(), StoreError> {
        self.checkpoints.join();
        point(Point::JournalLeaveBefore);
        if let Some(epoch) = self.standing.epoch
            && let Err(error) = executors::leave(&self.connection, epoch)
        {
            tracing::debug!(%error, "this executor stays on the list until another retires it");
        }
        point(Point::JournalLeaveAfter);
        // Other processes may still read; what is left in the WAL is read from there.
        if let Err(error) = self.checkpoint() {
            tracing::debug!(%error, "the write-ahead log stays for the next start");
        }
        point(Point::JournalCheckpointAfter);
        let database = self.database;
        self.connection
            .close()
            .map_err(|(_, error)| Fault::from(error).into_store(&database))
    }
}

/// Moves a known head forward, never back; a closed one stays closed.
pub(crate) fn advance(known: &mut Option<u64>, head: u64) -> bool {
    let newer = known.is_some_and(|known| known < head);
    if newer {
        *known = Some(head);
    }
    newer
}

fn run(connection: &Connection, statement: &str) -> Result<(), Fault> {
    connection.prepare_cached(statement)?.execute([])?;
    Ok(())
}
