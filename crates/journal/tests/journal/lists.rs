//! Lists: pages that neither skip nor double, whatever arrives meanwhile.

use crate::fixtures::{Home, T0, home, new_thread, note, with_body};
use pentad_model::{Actor, Event, EventBody, ThreadId, Timestamp, Verb};
use pentad_program::{ActivityFilter, Durability, NewThread, Store, ThreadFilter};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(work)
}

/// What happens between two pages of a list of threads.
#[derive(Debug, Clone)]
enum Arrival {
    Thread(i64),
    Event(usize, i64),
}

fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    let one = prop_oneof![
        (0..40_i64).prop_map(Arrival::Thread),
        (0..20_usize, 0..40_i64).prop_map(|(thread, at)| Arrival::Event(thread, at)),
    ];
    proptest::collection::vec(one, 0..4)
}

async fn arrive(home: &Home, known: &mut Vec<ThreadId>, moved: &mut BTreeSet<ThreadId>, arrival: &Arrival) {
    match *arrival {
        Arrival::Thread(at) => {
            let id = home.thread_at(T0 + at).await;
            moved.insert(id);
            known.push(id);
        }
        Arrival::Event(thread, at) => {
            let thread = known[thread % known.len()];
            moved.insert(thread);
            home.say_at(thread, "moved", T0 + at).await;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn pages_of_threads_neither_skip_nor_double(
        times in proptest::collection::vec(0..20_i64, 1..20),
        limit in 1..5_usize,
        between in proptest::collection::vec(arrivals(), 12),
    ) {
        block_on(async {
            let home = home();
            let mut known = Vec::new();
            for at in times {
                known.push(home.thread_at(T0 + at).await);
            }
            let (there, mut moved) = (known.clone(), BTreeSet::new());
            let mut between = between.into_iter();
            let mut filter = ThreadFilter { limit, ..ThreadFilter::default() };
            let mut seen: Vec<(i64, ThreadId)> = Vec::new();
            loop {
                let page = home.journal.threads(filter.clone()).await.unwrap();
                seen.extend(page.iter().map(|hit| (hit.thread.updated_at.0, hit.thread.id)));
                let Some(last) = page.last() else { break };
                filter.after = Some(last.mark.clone());
                for arrival in between.next().unwrap_or_default() {
                    arrive(&home, &mut known, &mut moved, &arrival).await;
                }
            }
            assert!(seen.is_sorted_by(|a, b| a > b), "{seen:?}");
            let ids: BTreeSet<ThreadId> = seen.iter().map(|(_, id)| *id).collect();
            assert_eq!(ids.len(), seen.len(), "a thread came twice");
            for thread in there {
                assert!(ids.contains(&thread) || moved.contains(&thread), "a thread was skipped");
            }
        });
    }

    #[test]
    fn activity_is_what_a_plain_filter_finds(
        events in proptest::collection::vec((0..3_usize, 0..3_usize, 0..4_usize, -30..30_i64), 0..40),
        filters in proptest::collection::vec(
            (
                proptest::option::of(0..3_usize),
                proptest::option::of(0..3_usize),
                proptest::option::of(0..3_usize),
                proptest::option::of(-35..35_i64),
                proptest::option::of(-35..35_i64),
                proptest::option::of(0..45_u64),
                0..12_usize,
            ),
            12,
        ),
    ) {
        let actors = ["user", "client:cursor", "agent:main"].map(|a| a.parse::<Actor>().unwrap());
        let verbs = [Verb::Read, Verb::Call, Verb::Plan];
        block_on(async {
            let home = home();
            let threads = [home.thread().await, home.thread().await, home.thread().await];
            let new = events.into_iter().map(|(thread, actor, verb, at)| {
                let body = match verbs.get(verb) {
                    Some(verb) => EventBody::Called {
                        verb: *verb,
                        arguments: serde_json::Value::Null,
                        cwd: "/".to_owned(),
                    },
                    None => EventBody::Note { text: "n".to_owned() },
                };
                pentad_model::event::NewEvent {
                    at: Timestamp(T0 + at),
                    caller: actors[actor].clone().into(),
                    ..with_body(threads[thread], body)
                }
            });
            let all = home.journal.append(new.collect(), Durability::Crash).await.unwrap();
            for (thread, actor, verb, since, until, before, limit) in filters {
                let filter = ActivityFilter {
                    actor: actor.map(|a| actors[a].clone()),
                    verb: verb.map(|v| verbs[v]),
                    thread: thread.map(|t| threads[t]),
                    since: since.map(|at| Timestamp(T0 + at)),
                    until: until.map(|at| Timestamp(T0 + at)),
                    before,
                    limit,
                };
                let expected: Vec<Event> =
                    all.iter().rev().filter(|e| fits(e, &filter)).take(limit).cloned().collect();
                assert_eq!(home.journal.activity(filter.clone()).await.unwrap(), expected, "{filter:?}");
            }
        });
    }
}

fn fits(event: &Event, filter: &ActivityFilter) -> bool {
    let verb = match &event.body {
        EventBody::Called { verb, .. } => Some(*verb),
        _ => None,
    };
    filter.actor.as_ref().is_none_or(|a| *a == event.caller.actor)
        && (filter.verb.is_none() || filter.verb == verb)
        && filter.thread.is_none_or(|t| t == event.thread)
        && filter.since.is_none_or(|t| event.at >= t)
        && filter.until.is_none_or(|t| event.at < t)
        && filter.before.is_none_or(|p| event.position < p)
}

#[tokio::test]
async fn a_list_is_of_one_agent_and_newest_first() {
    let home = home();
    let mut ids = Vec::new();
    for (n, agent) in ["main", "other", "main", "main"].iter().enumerate() {
        let new = NewThread {
            agent: agent.parse().unwrap(),
            at: Timestamp(T0 + i64::try_from(n).unwrap()),
            ..new_thread()
        };
        ids.push(home.journal.open_thread(new).await.unwrap().id);
    }
    home.journal
        .append(
            vec![pentad_model::event::NewEvent {
                at: Timestamp(T0 + 50),
                ..note(ids[0], "x")
            }],
            Durability::Crash,
        )
        .await
        .unwrap();
    let filter = ThreadFilter {
        agent: Some("main".parse().unwrap()),
        limit: 9,
        ..ThreadFilter::default()
    };
    let hits = home.journal.threads(filter).await.unwrap();
    assert_eq!(
        hits.iter().map(|h| h.thread.id).collect::<Vec<_>>(),
        [ids[0], ids[3], ids[2]]
    );
    assert_eq!(
        (hits[0].thread.updated_at, hits[0].thread.events),
        (Timestamp(T0 + 50), 1)
    );
    // An event whose clock ran behind does not move the thread back.
    home.say_at(ids[0], "late", T0 - 1_000).await;
    let thread = home
        .journal
        .find_thread(&ids[0].to_string().parse().unwrap())
        .await
        .unwrap();
    assert_eq!(thread.updated_at, Timestamp(T0 + 50));
    assert_eq!(home.journal.threads(ThreadFilter::default()).await.unwrap(), []);
}
