use std::sync::atomic::{AtomicI64, Ordering};

use pentad_model::grant::{Grant, GrantSet, components};
use pentad_model::{IdEnding, Name, ThreadId};
use proptest::prelude::*;
use serde_json::json;

use super::fake_store::FakeStore;
use super::*;

mod elicited;

const START: i64 = 1_800_000_000_000;

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn client() -> Actor {
    Actor::Client(name("claude-code"))
}

fn grants(texts: &[&str]) -> GrantSet {
    GrantSet::new(texts.iter().map(|t| t.parse::<Grant>().unwrap()))
}

fn act(actor: Actor, verb: GrantVerb, target: &str) -> Act {
    Act {
        verb,
        target: target.to_owned(),
        reach: Reach::Outside,
        right: None,
        caller: actor.into(),
        agent: Name::main(),
        thread: thread(1),
        run: None,
        read_only_trusted: false,
        destructive: false,
        input_hash: "input-1".to_owned(),
        closure_hash: "closure-1".to_owned(),
        question: "Create an issue?".to_owned(),
    }
}

fn thread(n: u8) -> ThreadId {
    ThreadId(pentad_model::Id::from_bytes([n; 16]))
}

fn call(target: &str) -> Act {
    act(client(), GrantVerb::Call, target)
}

struct Home {
    gate: Gate,
    store: Arc<FakeStore>,
    time: Arc<AtomicI64>,
}

fn home(policy: &str) -> Home {
    let store = Arc::new(FakeStore::default());
    let time = Arc::new(AtomicI64::new(START));
    let clock = Arc::clone(&time);
    let gate = Gate::new(
        Arc::clone(&store) as Arc<dyn Store>,
        Policy::parse(policy).unwrap(),
        Arc::new(move || Timestamp(clock.load(Ordering::SeqCst))),
    );
    Home { gate, store, time }
}

impl Home {
    async fn judge(&self, act: &Act) -> Result<Reason, Refusal> {
        self.gate
            .judge(act, &Authority::everything())
            .await
            .map(|permit| permit.reason)
    }

    /// Returns the open approval's ending as the refusal's next step names it.
    async fn asked(&self, act: &Act) -> IdEnding {
        let refusal = self.judge(act).await.unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::ApprovalRequired, "{refusal:?}");
        let step = refusal.next.first().unwrap();
        let words: Vec<&str> = step.split(' ').collect();
        let at = words.iter().position(|w| *w == "grant").unwrap();
        words[at + 1].parse().unwrap()
    }

    async fn grant(&self, act: &Act, scope: Scope) {
        let id = self.asked(act).await;
        self.gate
            .answer(&id, Decision::Grant(scope), &Actor::User)
            .await
            .unwrap();
    }

    fn later(&self, millis: i64) {
        self.time.fetch_add(millis, Ordering::SeqCst);
    }
}

fn weighed(policy: &str, act: &Act) -> &'static str {
    match home(policy).gate.would_ask(act, &Authority::everything()) {
        Verdict::Allowed(_) => "allowed",
        Verdict::Asks => "asks",
        Verdict::Denied(_) => "denied",
    }
}

#[test]
fn the_defaults_allow_what_is_ones_own_and_ask_for_the_rest() {
    let own = |verb, target: &str| Act {
        reach: Reach::Own,
        ..act(client(), verb, target)
    };
    let trusted = Act {
        read_only_trusted: true,
        ..call("github/list")
    };
    let cases = [
        (act(client(), GrantVerb::Read, "~/memory/x"), "allowed"),
        (act(client(), GrantVerb::Read, "~/tools/"), "allowed"),
        (act(client(), GrantVerb::Read, "activity:"), "allowed"),
        (act(client(), GrantVerb::Read, "approval:abc"), "allowed"),
        (own(GrantVerb::Read, "thread:abc"), "allowed"),
        (act(client(), GrantVerb::Read, "thread:abc"), "asks"),
        (own(GrantVerb::Write, "run:abc"), "allowed"),
        (act(client(), GrantVerb::Write, "run:abc"), "asks"),
        (own(GrantVerb::Read, "file:/work/src/x"), "allowed"),
        (act(client(), GrantVerb::Read, "file:/etc/passwd"), "asks"),
        (own(GrantVerb::Read, "https://example.org/"), "allowed"),
        (act(client(), GrantVerb::Read, "https://10.0.0.1/"), "asks"),
        (own(GrantVerb::Read, "mcp:github/repo"), "asks"),
        (act(client(), GrantVerb::Write, "~/memory/x"), "allowed"),
        (act(client(), GrantVerb::Write, "~/tools/x"), "asks"),
        (own(GrantVerb::Write, "file:/work/src/x"), "asks"),
        (trusted.clone(), "allowed"),
        (
            Act {
                destructive: true,
                ..trusted
            },
            "asks",
        ),
        (call("github/create_issue"), "asks"),
        (act(client(), GrantVerb::Delegate, "recipes/x"), "asks"),
        (
            act(Actor::User, GrantVerb::Call, "github/create_issue"),
            "allowed",
        ),
        (
            act(Actor::Trigger(name("nightly")), GrantVerb::Call, "x/y"),
            "asks",
        ),
    ];
    for (act, expected) in cases {
        assert_eq!(weighed("", &act), expected, "{}", act.text());
    }
}

#[test]
fn deny_stands_above_ask_above_allow_above_defaults() {
    let policy = r#"
        deny = ["call:github/delete_repo"]
        ask = ["read:~/memory", "call:github/create_issue"]
        allow = ["call:github/", "read:~/"]
        [[rule]]
        actor = "client:claude-code"
        allow = ["call:github/delete_repo", "call:github/create_issue"]
        [[rule]]
        actor = "agent:*"
        deny = ["call:github"]
    "#;
    assert_eq!(weighed(policy, &call("github/delete_repo")), "denied");
    assert_eq!(weighed(policy, &call("github/create_issue")), "asks");
    assert_eq!(weighed(policy, &call("github/list")), "allowed");
    assert_eq!(
        weighed(policy, &act(client(), GrantVerb::Read, "~/memory/x")),
        "asks"
    );
    let agent = |target: &str| act(Actor::Agent(name("main")), GrantVerb::Call, target);
    assert_eq!(weighed(policy, &agent("github/list")), "denied");
    assert_eq!(weighed(policy, &agent("gitlab/list")), "asks");
    let person = |target: &str| act(Actor::User, GrantVerb::Call, target);
    assert_eq!(weighed(policy, &person("github/delete_repo")), "denied");
    assert_eq!(weighed(policy, &person("github/create_issue")), "allowed");
}

#[test]
fn a01_a02_rules_are_on_tools_and_never_on_command_text() {
    let policy = r#"
        deny = ["call:recipes/deploy"]
        allow = ["call:recipes/git"]
    "#;
    let with = |target: &str, question: &str| Act {
        question: question.to_owned(),
        ..call(target)
    };
    assert_eq!(
        weighed(policy, &with("recipes/git", "git status && rm -rf x")),
        "allowed"
    );
    assert_eq!(weighed(policy, &with("recipes/git && rm", "git status")), "asks");
    assert_eq!(weighed(policy, &with("recipes/env", "env recipes/git")), "asks");
    assert_eq!(
        weighed(policy, &act(client(), GrantVerb::Delegate, "recipes/deploy")),
        "denied"
    );
}

#[test]
fn a03_forbidding_matches_in_doubt_and_allowing_only_exactly() {
    let policy = r#"
        deny = ["read:file:/Secret", "call:recipes/ＡＢ"]
        allow = ["write:file:/Open", "call:shop/Buy"]
    "#;
    let file = |verb, target: &str| act(client(), verb, target);
    assert_eq!(
        weighed(policy, &file(GrantVerb::Read, "file:/secret/x")),
        "denied"
    );
    assert_eq!(
        weighed(policy, &file(GrantVerb::Read, "file:/Secret-not/x")),
        "asks"
    );
    assert_eq!(weighed(policy, &call("recipes/ab")), "denied");
    assert_eq!(
        weighed(policy, &file(GrantVerb::Write, "file:/Open/x")),
        "allowed"
    );
    assert_eq!(weighed(policy, &file(GrantVerb::Write, "file:/open/x")), "asks");
    assert_eq!(weighed(policy, &call("shop/Buy")), "allowed");
    assert_eq!(weighed(policy, &call("shop/buy")), "asks");
    assert_eq!(
        weighed(policy, &file(GrantVerb::Write, "file:/Open/../Secret")),
        "denied"
    );
}

#[test]
fn a04_rules_have_no_globs() {
    let error = Policy::parse("allow = [\n  \"call:github/\",\n  \"call:git*\"\n]").unwrap_err();
    insta::assert_snapshot!(error.to_string(), @r#"policy.toml line 3: 'call:git*' has a '*': rules are prefixes of whole components, "call:github/" covers all of github"#);
    assert_eq!(weighed("allow = [\"call:git\"]", &call("github/x")), "asks");
}

#[test]
fn policy_errors_name_the_line_and_the_nearest_key() {
    let errors: Vec<String> = [
        "deny = [\"call:x/\"]\nalow = []",
        "allow = [\"call:x/\"\ndeny = []",
        "deny = \"call:x/\"",
        "deny = [3]",
        "\nask = [\"cal:x/\"]",
        "[[rule]]\nactor = \"client:*\"\n",
        "[[rule]]\nactor = \"user:*\"\ndeny = []\n",
        "[[rule]]\nactr = \"user\"\ndeny = []\n",
        "[rule]\ndeny = []\n",
        "quux = 1",
    ]
    .into_iter()
    .map(|text| Policy::parse(text).unwrap_err().to_string())
    .collect();
    insta::assert_snapshot!(errors.join("\n"));
}

#[test]
fn a_broken_policy_allows_nothing_new() {
    let home = home("deny = [\"call:github/\"]");
    let authority = Authority::everything();
    assert!(home.gate.reload("allow = [\"call:github/\"").is_err());
    let verdict = home.gate.would_ask(&call("github/x"), &authority);
    assert!(matches!(verdict, Verdict::Denied(_)));

    let error = Policy::parse("allow = [").unwrap_err();
    let broken = Policy::broken(&error);
    let verdict = weigh(&act(client(), GrantVerb::Read, "~/memory/x"), &authority, &broken);
    let Verdict::Denied(refusal) = verdict else {
        panic!("{verdict:?}")
    };
    assert!(refusal.message.contains("policy.toml line 1"), "{refusal:?}");
    let person = weigh(&act(Actor::User, GrantVerb::Call, "x/y"), &authority, &broken);
    assert_eq!(person, Verdict::Allowed(Reason::Person));

    home.gate.reload("").unwrap();
    assert_eq!(home.gate.would_ask(&call("github/x"), &authority), Verdict::Asks);
}

#[test]
fn what_is_not_granted_is_refused_before_anybody_is_asked() {
    let home = home("allow = [\"call:slack/\"]");
    let authority = Authority {
        grants: grants(&["call:github/", "read:~/"]),
        standing: GrantSet::default(),
    };
    let verdict = |act: &Act| match home.gate.would_ask(act, &authority) {
        Verdict::Denied(refusal) => refusal.to_text(),
        other => format!("{other:?}"),
    };
    assert_eq!(
        verdict(&call("slack/post")),
        crate::unknown_tool("slack/post", &[]).to_text()
    );
    assert_eq!(verdict(&call("github/x")), "Asks");
    insta::assert_snapshot!(verdict(&act(client(), GrantVerb::Write, "file:/x")), @"
    Your grants do not cover 'write:file:/x'.
    Next: read ~/self shows your grants
    ");
    let run = Act {
        right: Some(Grant::Execute),
        ..call("github/x")
    };
    insta::assert_snapshot!(verdict(&run), @r#"
    'call:github/x' needs the grant 'execute', which you do not have.
    Next: a person may add "execute" to the grants of this client or agent in config.toml
    "#);
}

#[test]
fn standing_grants_are_not_asked_about_but_a_policy_may_ask() {
    let home = home("ask = [\"call:github/delete\"]");
    let authority = Authority {
        standing: grants(&["call:github/"]),
        ..Authority::everything()
    };
    let weigh = |act: &Act| home.gate.would_ask(act, &authority);
    assert_eq!(weigh(&call("github/x")), Verdict::Allowed(Reason::Standing));
    assert_eq!(weigh(&call("github/delete")), Verdict::Asks);
    assert_eq!(weigh(&call("gitlab/x")), Verdict::Asks);
}

#[tokio::test]
async fn an_approval_is_asked_once_with_the_next_steps() {
    let home = home("");
    let act = call("github/create_issue");
    let first = home.judge(&act).await.unwrap_err();
    assert_eq!(home.judge(&act).await.unwrap_err(), first);
    let approval = home.store.approvals.lock().unwrap()[0].clone();
    let id = approval.id.to_string();
    let text = first
        .to_text()
        .replace(&id, "ID")
        .replace(suffix(&id, 8), "ENDING");
    insta::assert_snapshot!(text, @"
    'call:github/create_issue' waits for a person's approval: approval:ID.
    Next: a person runs: pentad approvals grant ENDING [--run|--always]
    Next: then repeat the call
    ");
    assert_eq!(approval.subject.act, "call:github/create_issue");
    assert_eq!(approval.question, "Create an issue?");
    assert_eq!(home.store.events.lock().unwrap().len(), 1);
    assert_eq!(home.gate.open_approvals(10).await.unwrap(), [approval]);
}

#[tokio::test]
async fn only_a_person_answers() {
    let home = home("");
    let id = home.asked(&call("a/b")).await;
    for by in [
        client(),
        Actor::Agent(Name::main()),
        Actor::System,
        Actor::Trigger(name("t")),
    ] {
        let refusal = home
            .gate
            .answer(&id, Decision::Grant(Scope::Once), &by)
            .await
            .unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::Forbidden);
    }
    home.gate
        .answer(&id, Decision::Grant(Scope::Once), &Actor::User)
        .await
        .unwrap();
    let again = home
        .gate
        .answer(&id, Decision::Deny, &Actor::User)
        .await
        .unwrap_err();
    assert_eq!(again.kind, RefusalKind::Conflict);
    let nobody: IdEnding = "00000000".parse().unwrap();
    let unknown = home
        .gate
        .answer(&nobody, Decision::Deny, &Actor::User)
        .await
        .unwrap_err();
    assert_eq!(unknown.kind, RefusalKind::NotFound);
}

#[tokio::test]
async fn destructive_acts_are_never_granted_for_always() {
    let home = home("");
    let act = Act {
        destructive: true,
        ..call("disk/format")
    };
    let id = home.asked(&act).await;
    let refusal = home
        .gate
        .answer(&id, Decision::Grant(Scope::Always), &Actor::User)
        .await
        .unwrap_err();
    let full = home.store.approvals.lock().unwrap()[0].id.to_string();
    assert_eq!(refusal.subject, format!("approval:{full}"));
    insta::assert_snapshot!(refusal.to_text(), @"
    'call:disk/format' may destroy or runs foreign code: it can be granted once or for this thread's run, never for always.
    Supported: once, run.
    ");
    home.gate
        .answer(&id, Decision::Grant(Scope::Run), &Actor::User)
        .await
        .unwrap();
    assert!(home.judge(&act).await.is_ok());
    let elsewhere = Act {
        thread: thread(2),
        ..act
    };
    let refusal = home.judge(&elsewhere).await.unwrap_err();
    assert!(refusal.next[0].ends_with("[--run]"), "{refusal:?}");
}

#[tokio::test]
async fn a_no_is_remembered_for_that_input_in_that_thread_and_for_a_day() {
    let home = home("");
    let act = call("a/b");
    let id = home.asked(&act).await;
    home.gate.answer(&id, Decision::Deny, &Actor::User).await.unwrap();
    let refusal = home.judge(&act).await.unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::Forbidden);
    assert!(refusal.next[0].contains("do not repeat the call"));
    let other = Act {
        input_hash: "input-2".to_owned(),
        ..act.clone()
    };
    assert_eq!(
        home.judge(&other).await.unwrap_err().kind,
        RefusalKind::ApprovalRequired
    );
    home.later(MAX_AGE_MILLIS + 1);
    assert_eq!(
        home.judge(&act).await.unwrap_err().kind,
        RefusalKind::ApprovalRequired
    );
}

#[tokio::test]
async fn an_open_question_expires_and_is_asked_anew() {
    let home = home("");
    let act = call("a/b");
    let old = home.asked(&act).await;
    home.later(MAX_AGE_MILLIS);
    assert_eq!(home.asked(&act).await, old);
    home.later(1);
    let new = home.asked(&act).await;
    assert_ne!(new, old);
    let refusal = home
        .gate
        .answer(&old, Decision::Grant(Scope::Once), &Actor::User)
        .await
        .unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::Conflict);
    assert!(refusal.message.contains("expired"));
    home.later(MAX_AGE_MILLIS + 1);
    assert!(home.gate.open_approvals(10).await.unwrap().is_empty());
    let states: Vec<ApprovalState> = home
        .store
        .approvals
        .lock()
        .unwrap()
        .iter()
        .map(|a| a.state)
        .collect();
    assert_eq!(states, [ApprovalState::Expired, ApprovalState::Expired]);
}

#[tokio::test]
async fn s15_a_changed_tool_is_asked_about_again_and_says_so() {
    let home = home("");
    let act = call("github/list");
    home.grant(&act, Scope::Always).await;
    assert!(home.judge(&act).await.is_ok());
    let changed = Act {
        closure_hash: "closure-2".to_owned(),
        ..act
    };
    let refusal = home.judge(&changed).await.unwrap_err();
    assert!(
        refusal
            .message
            .contains("It was approved before, and has changed since."),
        "{refusal:?}"
    );
    assert!(
        home.store.approvals.lock().unwrap()[1]
            .question
            .contains("has changed since")
    );
}

#[tokio::test]
async fn hits_show_whether_a_call_would_ask() {
    let home = home("");
    let act = call("github/list");
    let authority = Authority::everything();
    home.grant(&act, Scope::Run).await;
    let granted = home
        .store
        .approvals(ApprovalFilter {
            state: Some("granted".to_owned()),
            limit: 10,
        })
        .await
        .unwrap();
    assert!(matches!(
        home.gate.would_ask_after(&act, &authority, &granted),
        Verdict::Allowed(_)
    ));
    let other = Act {
        thread: thread(2),
        ..act
    };
    assert_eq!(
        home.gate.would_ask_after(&other, &authority, &granted),
        Verdict::Asks
    );
    assert_eq!(home.store.approvals.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn named_rights_are_granted_for_a_run_at_most() {
    let home = home("");
    let act = Act {
        right: Some(Grant::Execute),
        ..call("builtin/execute")
    };
    let authority = Authority {
        grants: GrantSet::new(
            Authority::everything()
                .grants
                .iter()
                .cloned()
                .chain([Grant::Execute]),
        ),
        standing: GrantSet::default(),
    };
    let refusal = home.gate.judge(&act, &authority).await.unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::ApprovalRequired);
    assert!(home.store.approvals.lock().unwrap()[0].run_at_most);
}

#[test]
fn what_a_policy_denies_is_not_shown_in_any_spelling() {
    let policy =
        Policy::parse("[[rule]]\nactor = \"client:*\"\ndeny = [\"call:github/Delete_Repo\"]").unwrap();
    let visibility = |actor: Actor| crate::Visibility {
        denied: policy.denied_for(&actor),
        ..crate::Visibility::everything()
    };
    let tool = pentad_model::ToolRef::new("github", "delete_repo");
    assert!(!visibility(client()).sees(&tool));
    assert!(visibility(Actor::Agent(Name::main())).sees(&tool));
}

#[test]
fn input_hashes_ignore_key_order_only() {
    let hash = |value: serde_json::Value| input_hash(value.as_object().unwrap()).unwrap();
    assert_eq!(hash(json!({"a": 1, "b": [2]})), hash(json!({"b": [2], "a": 1})));
    assert_ne!(hash(json!({"a": 1})), hash(json!({"a": "1"})));
    assert_eq!(hash(json!({})).len(), 64);
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

fn a_target() -> impl Strategy<Value = String> {
    ("(github|git-hub|git)", "(list|list_all|a/b)").prop_map(|(source, tool)| format!("{source}/{tool}"))
}

fn an_actor() -> impl Strategy<Value = Actor> {
    prop_oneof![
        Just(client()),
        Just(Actor::Client(name("claude"))),
        Just(Actor::Agent(name("claude-code"))),
    ]
}

#[derive(Debug, Clone)]
struct Variation {
    target: String,
    actor: Actor,
    agent: bool,
    thread: u8,
    input: u8,
    closure: u8,
}

fn a_variation() -> impl Strategy<Value = Variation> {
    (a_target(), an_actor(), any::<bool>(), 1_u8..3, 1_u8..3, 1_u8..3).prop_map(
        |(target, actor, agent, thread, input, closure)| Variation {
            target,
            actor,
            agent,
            thread,
            input,
            closure,
        },
    )
}

impl Variation {
    fn act(&self) -> Act {
        Act {
            agent: name(if self.agent { "main" } else { "other" }),
            thread: thread(self.thread),
            input_hash: format!("input-{}", self.input),
            closure_hash: format!("closure-{}", self.closure),
            ..act(self.actor.clone(), GrantVerb::Call, &self.target)
        }
    }
}

proptest! {
    #[test]
    fn a05_a_decision_is_honoured_exactly_for_its_scope(
        given in a_variation(),
        tried in a_variation(),
        scope in prop_oneof![Just(Scope::Once), Just(Scope::Run), Just(Scope::Always)],
    ) {
        block_on(async {
            let home = home("");
            let (given_act, tried_act) = (given.act(), tried.act());
            home.grant(&given_act, scope).await;
            let same = given.target == tried.target
                && given.actor == tried.actor
                && given.agent == tried.agent
                && given.closure == tried.closure;
            let expected = same && match scope {
                Scope::Always => true,
                Scope::Run => given.thread == tried.thread,
                Scope::Once => given.input == tried.input,
            };
            prop_assert_eq!(home.judge(&tried_act).await.is_ok(), expected);
            let again = expected && scope != Scope::Once;
            prop_assert_eq!(home.judge(&tried_act).await.is_ok(), again);
            Ok(())
        })?;
    }

    #[test]
    fn a08_a_child_is_never_wider_and_never_narrower_by_accident(
        parent in proptest::collection::vec(a_target(), 0..4),
        standing in proptest::collection::vec(a_target(), 0..4),
        asked in proptest::option::of(proptest::collection::vec(a_target(), 0..4)),
        tried in a_target(),
    ) {
        let set = |targets: &[String]| GrantSet::new(targets.iter().map(|t| Grant::act(GrantVerb::Call, t)));
        let authority = Authority { grants: set(&parent), standing: set(&standing) };
        let wanted = asked.as_deref().map(set);
        let child = authority.child(wanted.as_ref());
        let target = components(&tried);
        let within = wanted.as_ref().is_none_or(|set| set.covers(GrantVerb::Call, &target));
        for (own, childs) in [(&authority.grants, &child.grants), (&authority.standing, &child.standing)] {
            let expected = own.covers(GrantVerb::Call, &target) && within;
            prop_assert_eq!(childs.covers(GrantVerb::Call, &target), expected);
        }
    }

    #[test]
    fn any_text_is_a_policy_or_an_error_with_a_line(text in "(\\PC|\n){0,80}") {
        if let Err(error) = Policy::parse(&text) {
            prop_assert!(error.line >= 1 && error.line <= 1 + text.matches('\n').count());
        }
    }
}
