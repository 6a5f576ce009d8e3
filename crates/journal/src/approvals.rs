//! Approvals: asking, answering, using, finding and listing.

use pentad_model::approval::{Approval, ApprovalState, Scope as Reach, Subject};
use pentad_model::event::NewEvent;
use pentad_model::{ApprovalId, Caller, EventBody, IdEnding, RunId, ThreadId, Timestamp};
use pentad_program::{ApprovalFilter, StoreError};
use rusqlite::{Connection, Row, ToSql, named_params, params};

use crate::codec::{self, tail, tail_of};
use crate::events;
use crate::fault::Fault;
use crate::threads;
use crate::waits;
use crate::writer::Scope;

const SELECT: &str =
    "SELECT approval.id, thread.id AS thread_id, run, actor, approval.agent, act, input_hash,
     closure_hash, question, run_at_most, state, scope, answered_by, approval.created_at, answered_at
     FROM approval JOIN thread ON thread.row = approval.thread";

fn from_row(row: &Row<'_>) -> Result<Approval, Fault> {
    let (word, scope): (String, Option<String>) = (row.get("state")?, row.get("scope")?);
    let state = state_of(&word, scope.as_deref()).ok_or_else(|| {
        StoreError::Corrupt(format!(
            "an approval has the unknown state '{word}'; use a newer pentad"
        ))
    })?;
    let answered_by: Option<String> = row.get("answered_by")?;
    Ok(Approval {
        id: ApprovalId(codec::id(row, "id")?),
        thread: ThreadId(codec::id(row, "thread_id")?),
        run: codec::optional_id(row, "run")?.map(RunId),
        subject: Subject {
            actor: codec::parsed(row, "actor")?,
            agent: codec::parsed(row, "agent")?,
            act: row.get("act")?,
            input_hash: row.get("input_hash")?,
            closure_hash: row.get("closure_hash")?,
        },
        question: row.get("question")?,
        run_at_most: row.get("run_at_most")?,
        state,
        answered_by: answered_by.and_then(|actor| actor.parse().ok()),
        created_at: Timestamp(row.get("created_at")?),
        answered_at: row.get::<_, Option<i64>>("answered_at")?.map(Timestamp),
    })
}

fn state_of(word: &str, scope: Option<&str>) -> Option<ApprovalState> {
    Some(match (word, scope) {
        ("open", _) => ApprovalState::Open,
        ("granted", Some("once")) => ApprovalState::Granted(Reach::Once),
        ("granted", Some("run")) => ApprovalState::Granted(Reach::Run),
        ("granted", Some("always")) => ApprovalState::Granted(Reach::Always),
        ("used", _) => ApprovalState::Used,
        ("denied", _) => ApprovalState::Denied,
        ("expired", _) => ApprovalState::Expired,
        ("void", _) => ApprovalState::Void,
        _ => return None,
    })
}

const fn scope_word(state: ApprovalState) -> Option<&'static str> {
    match state {
        ApprovalState::Granted(scope) => Some(scope.word()),
        _ => None,
    }
}

fn first<P: rusqlite::Params>(
    connection: &Connection,
    condition: &str,
    values: P,
) -> Result<Option<Approval>, Fault> {
    let mut statement = connection.prepare_cached(&format!("{SELECT} WHERE {condition} LIMIT 1"))?;
    statement.query_and_then(values, from_row)?.next().transpose()
}

/// Records a request, or returns the one that is open for the same subject; its events are written only when it is new.
pub(crate) fn ask(scope: &mut Scope<'_>, asked: &Approval, new: &[NewEvent]) -> Result<Approval, Fault> {
    let subject = &asked.subject;
    let open = first(
        scope.connection,
        "act = ?1 AND closure_hash = ?2 AND input_hash = ?3 AND actor = ?4 AND approval.agent = ?5
         AND state = 'open'",
        params![
            subject.act,
            subject.closure_hash,
            subject.input_hash,
            subject.actor.to_string(),
            subject.agent.as_str()
        ],
    )?;
    if let Some(open) = open {
        return Ok(open);
    }
    if asked.state != ApprovalState::Open {
        let text = format!("an approval begins open, not '{}'", asked.state.word());
        return Err(StoreError::Conflict(text).into());
    }
    insert(scope.connection, asked)?;
    events::append(scope, new)?;
    Ok(Approval {
        answered_by: None,
        answered_at: None,
        ..asked.clone()
    })
}

fn insert(connection: &Connection, asked: &Approval) -> Result<(), Fault> {
    let thread = threads::row_of(connection, asked.thread)?;
    let made = connection
        .prepare_cached(
            "INSERT INTO approval (id, tail, thread, run, actor, agent, act, input_hash, closure_hash, question,
                                   run_at_most, state, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 'open', ?12) ON CONFLICT (id) DO NOTHING",
        )?
        .execute(params![
            asked.id.0.as_bytes(),
            tail(asked.id.0),
            thread,
            asked.run.map(|r| *r.0.as_bytes()),
            asked.subject.actor.to_string(),
            asked.subject.agent.as_str(),
            asked.subject.act,
            asked.subject.input_hash,
            asked.subject.closure_hash,
            asked.question,
            asked.run_at_most,
            asked.created_at.0,
        ])?;
    if made == 0 {
        let text = format!("there is an approval {} already; ask with another id", asked.id);
        return Err(StoreError::Conflict(text).into());
    }
    Ok(())
}

/// Answers an open approval, notes the answer in its thread, and tells the runs that wait for it.
pub(crate) fn answer(
    scope: &mut Scope<'_>,
    id: ApprovalId,
    state: ApprovalState,
    by: &Caller,
    at: Timestamp,
) -> Result<Approval, Fault> {
    let found = get(scope.connection, id)?;
    let conflict = |text: String| Err(StoreError::Conflict(text).into());
    if found.state != ApprovalState::Open {
        return conflict(format!(
            "approval {id} is '{}' and is not answered again",
            found.state.word()
        ));
    }
    match state {
        ApprovalState::Open | ApprovalState::Used => {
            return conflict(format!(
                "'{}' is no answer to approval {id}; answer granted, denied, expired or void",
                state.word()
            ));
        }
        ApprovalState::Granted(Reach::Always) if found.run_at_most => {
            return conflict(format!(
                "approval {id} is of a kind that lasts for one run at most; grant it once or for this run"
            ));
        }
        ApprovalState::Granted(_) | ApprovalState::Denied | ApprovalState::Expired | ApprovalState::Void => {}
    }
    scope
        .connection
        .prepare_cached(
            "UPDATE approval SET state = ?2, scope = ?3, answered_by = ?4, answered_at = ?5 WHERE id = ?1",
        )?
        .execute(params![
            id.0.as_bytes(),
            state.word(),
            scope_word(state),
            by.actor.to_string(),
            at.0
        ])?;
    let answered = Approval {
        state,
        answered_by: Some(by.actor.clone()),
        answered_at: Some(at),
        ..found
    };
    note(scope, &answered, by, at)?;
    waits::tell_approval(scope, id, state.word(), by, at)?;
    Ok(answered)
}

fn note(scope: &mut Scope<'_>, approval: &Approval, by: &Caller, at: Timestamp) -> Result<(), Fault> {
    let event = NewEvent {
        thread: approval.thread,
        at,
        caller: by.clone(),
        call: None,
        run: approval.run,
        body: EventBody::Approval {
            approval: approval.id,
            state: approval.state,
            act: approval.subject.act.clone(),
        },
    };
    events::append(scope, &[event])?;
    Ok(())
}

/// Returns the grant that permits a subject in a thread: the widest, so that a grant given once is not spent needlessly.
pub(crate) fn granted(
    connection: &Connection,
    subject: &Subject,
    thread: ThreadId,
) -> Result<Option<Approval>, Fault> {
    let sql = format!(
        "{SELECT} WHERE act = :act AND closure_hash = :closure AND actor = :actor AND approval.agent = :agent
         AND state = 'granted'"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let (actor, agent) = (subject.actor.to_string(), subject.agent.as_str());
    let values = named_params! {
        ":act": subject.act, ":closure": subject.closure_hash, ":actor": actor, ":agent": agent,
    };
    let mut best: Option<(u8, Approval)> = None;
    for approval in statement.query_and_then(values, from_row)? {
        let approval = approval?;
        let rank = match approval.state {
            ApprovalState::Granted(Reach::Always) => 2,
            ApprovalState::Granted(Reach::Run) if approval.thread == thread => 1,
            ApprovalState::Granted(Reach::Once) if approval.subject == *subject => 0,
            _ => continue,
        };
        if best.as_ref().is_none_or(|(found, _)| rank > *found) {
            best = Some((rank, approval));
        }
    }
    Ok(best.map(|(_, approval)| approval))
}

/// Uses up a grant that was given once; any other stays. Returns nothing when no grant permits the subject any more.
pub(crate) fn spend(
    scope: &mut Scope<'_>,
    subject: &Subject,
    thread: ThreadId,
    at: Timestamp,
) -> Result<Option<Approval>, Fault> {
    let Some(mut approval) = granted(scope.connection, subject, thread)? else {
        return Ok(None);
    };
    if approval.state == ApprovalState::Granted(Reach::Once) {
        scope
            .connection
            .prepare_cached("UPDATE approval SET state = 'used' WHERE id = ?1")?
            .execute([approval.id.0.as_bytes()])?;
        approval.state = ApprovalState::Used;
        note(scope, &approval, &subject.actor.clone().into(), at)?;
    }
    Ok(Some(approval))
}

/// Reads an approval by id.
pub(crate) fn get(connection: &Connection, id: ApprovalId) -> Result<Approval, Fault> {
    first(connection, "approval.id = ?1", [id.0.as_bytes()])?
        .ok_or_else(|| StoreError::NotFound(format!("there is no approval {id}")).into())
}

/// Finds an approval by an ending of its id.
pub(crate) fn find(connection: &Connection, ending: &IdEnding) -> Result<Approval, Fault> {
    let mut statement = connection.prepare_cached(&format!("{SELECT} WHERE approval.tail = ?1"))?;
    let mut found = Vec::new();
    for approval in statement.query_and_then([tail_of(ending.as_str())], from_row)? {
        let approval = approval?;
        if ending.matches(approval.id.0) {
            found.push(approval);
        }
    }
    threads::only(found, ending.as_str(), "approval")
}

/// Returns the query of a list of approvals, newest first in the order in which they were asked.
pub(crate) fn list_sql(state: bool) -> String {
    let state = if state { "WHERE state = :state" } else { "" };
    format!("{SELECT} {state} ORDER BY approval.row DESC LIMIT :limit")
}

/// Lists approvals, newest first.
pub(crate) fn list(connection: &Connection, filter: &ApprovalFilter) -> Result<Vec<Approval>, Fault> {
    let limit = codec::limit(filter.limit);
    let mut statement = connection.prepare_cached(&list_sql(filter.state.is_some()))?;
    let mut values: Vec<(&str, &dyn ToSql)> = vec![(":limit", &limit)];
    if filter.state.is_some() {
        values.push((":state", &filter.state));
    }
    statement.query_and_then(values.as_slice(), from_row)?.collect()
}
