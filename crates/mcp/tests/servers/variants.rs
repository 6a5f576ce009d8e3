//! Servers that depend on the variables of whoever calls.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pentad_mcp::{ByCaller, CommandLine, ConnectedServer, Definition, Reach, ServerConfig, Values, Way};
use pentad_model::{Refusal, RefusalKind, ToolDocument};
use pentad_program::{Environment, Readiness, ToolFailure, ToolOutput, ToolSource as _};
use serde_json::json;

use crate::support::{Bench, command_line, document, end, text, tool_call, until};

/// The fixture server with `WHO` of its callers; whoever is `broken` gets one that ends at once, and `PROGRAM` takes the
/// program's place.
struct ForWhom(CommandLine);

impl ByCaller for ForWhom {
    fn definition(&self) -> Definition {
        Definition::Command(self.0.clone())
    }

    fn values(&self, environment: Option<&Environment>) -> Values {
        let own = BTreeMap::from([("WHO".into(), "own-process".into())]);
        let from = environment.map_or(&own, |environment| &environment.0);
        ["WHO", "PROGRAM"]
            .into_iter()
            .filter_map(|name| {
                let value = from.get(std::ffi::OsStr::new(name))?;
                Some((name.to_owned(), value.to_str()?.to_owned()))
            })
            .collect()
    }

    fn reach(&self, values: &Values) -> Result<Reach, Refusal> {
        let missing = || Refusal::new(RefusalKind::Invalid, "WHO", "WHO is not set here.");
        let who = values.get("WHO").ok_or_else(missing)?;
        let mut line = self.0.clone();
        line.env.insert("WHO".to_owned(), who.clone());
        if who == "broken" {
            let switches = ["--exit-at-once", "7", "--stderr", "stopped by its variable"];
            line.args.extend(switches.map(str::to_owned));
        }
        if let Some(program) = values.get("PROGRAM") {
            line.program.clone_from(program);
        }
        Ok(Reach::Command(line))
    }
}

fn for_whom(bench: &Bench, args: &[&str], change: impl FnOnce(&mut ServerConfig)) -> ConnectedServer {
    let mut config = bench.config(args);
    let line = command_line(&mut config).clone();
    config.reach = Way::ByCaller(Arc::new(ForWhom(line)));
    change(&mut config);
    bench.made(config)
}

fn face(variables: &[(&str, &str)]) -> Arc<Environment> {
    let pairs = variables
        .iter()
        .map(|(name, value)| ((*name).into(), (*value).into()));
    Arc::new(Environment(pairs.collect()))
}

async fn who(
    server: &ConnectedServer,
    tool: &Arc<ToolDocument>,
    environment: Option<Arc<Environment>>,
) -> Result<ToolOutput, ToolFailure> {
    let mut call = tool_call(Arc::clone(tool), &json!({"name": "WHO"}));
    call.attendance.environment = environment;
    server.call(call).await
}

#[tokio::test(flavor = "multi_thread")]
async fn each_caller_has_its_own_value_and_equal_values_share_one_process() {
    let bench = Bench::new();
    let server = for_whom(&bench, &[], |_| {});
    let missing = server.refresh(Some(&face(&[]))).await.unwrap_err();
    assert_eq!(missing.subject, "WHO");
    assert_eq!(bench.count("start"), 0);

    let tool = document(&server, "environment").await;
    let (ada, bob) = (face(&[("WHO", "ada-lovelace")]), face(&[("WHO", "bob")]));
    let also_ada = face(&[("WHO", "ada-lovelace"), ("OTHER", "counts not")]);
    for (environment, wanted) in [
        (None, "own-process"),
        (Some(&ada), "ada-lovelace"),
        (Some(&bob), "bob"),
        (Some(&also_ada), "ada-lovelace"),
    ] {
        let output = who(&server, &tool, environment.cloned()).await.unwrap();
        assert_eq!(text(&output), wanted);
    }
    assert_eq!(bench.count("start"), 3, "{:?}", bench.witness());
    assert_eq!(server.status().copies, 3);
    let refused = who(&server, &tool, Some(face(&[]))).await.unwrap_err();
    assert!(
        matches!(&refused, ToolFailure::Refused(refusal) if refusal.subject == "WHO"),
        "{refused:?}"
    );

    // An approval holds for callers with equal variables, and for nobody else.
    let bound_to = |environment: &Environment| server.closure_hash(&tool, Some(environment));
    assert_eq!(bound_to(&ada), bound_to(&also_ada));
    assert_ne!(bound_to(&ada), bound_to(&bob));
    assert_ne!(bound_to(&ada), server.closure_hash(&tool, None));
    end(&server).await;
    assert_eq!(server.status().copies, 0);

    // The tools are the server's, whoever made them known, and what is kept of them names nobody's values.
    let later = for_whom(&bench, &[], |_| {});
    assert_eq!(later.status().readiness, Readiness::Indexed);
    let kept = std::fs::read_to_string(bench.folder.path().join("cache/fixture.json")).unwrap();
    assert!(!kept.contains("ada-lovelace"));
    end(&later).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_are_bounded_and_one_that_rests_makes_room() {
    let bench = Bench::new();
    let server = Arc::new(for_whom(&bench, &[], |config| {
        config.limits.max_copies = 2;
        config.limits.idle_timeout = Duration::from_millis(150);
    }));
    let tool = document(&server, "environment").await;
    let sleep = document(&server, "sleep").await;
    let busy = [None, Some(face(&[("WHO", "ada")]))].map(|environment| {
        let mut call = tool_call(Arc::clone(&sleep), &json!({"ms": 600_000}));
        call.attendance.environment = environment;
        let cancel = call.attendance.cancel.clone();
        let server = Arc::clone(&server);
        (cancel, tokio::spawn(async move { server.call(call).await }))
    });
    until(|| server.status().copies == 2, "two copies").await;
    let bob = face(&[("WHO", "bob-canary")]);
    let Err(ToolFailure::Refused(refusal)) = who(&server, &tool, Some(Arc::clone(&bob))).await else {
        panic!("a third copy")
    };
    assert_eq!(refusal.kind, RefusalKind::TooMany);
    insta::assert_snapshot!(refusal.to_text());
    let [(own, first), (ada, second)] = busy;
    own.cancel();
    assert_eq!(first.await.unwrap(), Err(ToolFailure::Canceled));
    until(|| server.status().copies < 2, "an idle copy is stopped").await;
    who(&server, &tool, Some(bob)).await.unwrap();
    ada.cancel();
    assert_eq!(second.await.unwrap(), Err(ToolFailure::Canceled));
    end(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m10_a_copy_that_fails_is_held_back_and_the_others_go_on() {
    let bench = Bench::new();
    let server = for_whom(&bench, &[], |config| {
        config.limits.max_copies = 2;
        config.limits.max_failures = 1;
    });
    let tool = document(&server, "environment").await;
    let broken = face(&[("WHO", "broken")]);
    who(&server, &tool, Some(Arc::clone(&broken))).await.unwrap_err();
    let held_back = who(&server, &tool, Some(Arc::clone(&broken))).await.unwrap_err();
    assert!(
        held_back.to_string().contains("is disabled after 1 failures"),
        "{held_back}"
    );
    assert_eq!(bench.count("start"), 2);
    who(&server, &tool, None).await.unwrap();
    let status = server.status();
    assert_eq!(status.readiness, Readiness::Ready);
    let failed = status
        .diagnostics
        .iter()
        .find(|found| found.next.is_some())
        .unwrap();
    assert_eq!(failed.next.as_deref(), Some("pentad connect fixture --again"));
    // Its failures are not forgotten to make room for another copy.
    let Err(ToolFailure::Refused(refusal)) = who(&server, &tool, Some(face(&[("WHO", "c")]))).await else {
        panic!("a third copy")
    };
    insta::assert_snapshot!(refusal.to_text());
    // A person asks for it again, with the variable that breaks it, and then with another.
    let again = server.open_again(Some(&broken)).await.unwrap_err();
    assert!(again.message.contains("stopped by its variable"), "{again}");
    server.open_again(None).await.unwrap();
    assert_eq!(bench.count("start"), 3);
    end(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p18_no_variable_makes_a_server_of_ourselves() {
    let bench = Bench::new();
    let server = for_whom(&bench, &[], |_| {});
    let tool = document(&server, "environment").await;
    let own = std::env::current_exe().unwrap();
    let ourselves = face(&[("WHO", "ada"), ("PROGRAM", own.to_str().unwrap())]);
    let refused = who(&server, &tool, Some(ourselves)).await.unwrap_err();
    assert!(refused.to_string().contains("is this very program"), "{refused}");
    assert!(!refused.to_string().contains(own.to_str().unwrap()), "{refused}");
    end(&server).await;
}
