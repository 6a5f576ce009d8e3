//! Commands that cannot start, and what the error says.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use std::os::unix::fs::PermissionsExt as _;

use common::{sh, spawner, within};
use pentad_process::{CommandSpec, MAX_ARGUMENT_BYTES, Spawner};

async fn refusal(spawner: &Spawner, change: impl FnOnce(&mut CommandSpec)) -> String {
    let mut spec = sh("true");
    spec.run_marker = "refused".into();
    change(&mut spec);
    within(spawner.spawn(spec)).await.unwrap_err().to_string()
}

#[tokio::test]
async fn every_refusal_names_the_program_and_the_next_step() {
    let spawner = spawner();
    let directory = tempfile::tempdir_in("/tmp").unwrap();
    let file = |name: &str, text: &str, mode: u32| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    file("plain", "text", 0o644);
    file("lost", "#!/no/such/interpreter\n", 0o755);
    file("binary", "\0\0", 0o755);
    let mut said = Vec::new();
    said.push(refusal(&spawner, |spec| spec.program = "no-such-program".into()).await);
    for program in ["./missing", "./plain", "./lost", "./binary"] {
        let cwd = directory.path().to_path_buf();
        said.push(
            refusal(&spawner, |spec| {
                spec.program = program.into();
                spec.cwd = cwd;
            })
            .await,
        );
    }
    said.push(refusal(&spawner, |spec| spec.cwd = "/no/such/directory".into()).await);
    said.push(refusal(&spawner, |spec| spec.program = "".into()).await);
    said.push(refusal(&spawner, |spec| spec.args = vec!["a".into(), "b\0c".into()]).await);
    said.push(refusal(&spawner, |spec| _ = spec.env.insert("X".into(), "b\0c".into())).await);
    let text = said.join("\n").replace(directory.path().to_str().unwrap(), "DIR");
    insta::assert_snapshot!(text, @r"
    no-such-program: no such program in PATH (/usr/local/bin:/usr/bin:/bin). Install it, give its path, or declare the PATH that has it.
    ./missing: no such file (working directory DIR). Check the path.
    ./plain: permission to execute is denied. Make it executable (chmod +x), or run it through its interpreter.
    ./lost: the file exists, but the interpreter or loader it names does not. Check its `#!` line.
    ./binary: the file is no program that this system can run. Add a `#!` line, or name its interpreter.
    sh: cannot enter the working directory /no/such/directory: No such file or directory (os error 2). Create it or choose another.
    The command names no program. Write the program's name or path first.
    sh: argument 2 holds a NUL byte, which no program can receive. Remove it or pass the value on standard input.
    sh: environment variable X holds a NUL byte, which no program can receive. Remove it or pass the value on standard input.
    ");
}

#[tokio::test]
async fn o11_too_long_a_command_is_refused_with_the_limit_named() {
    let spawner = spawner();
    // The longest argument that fits arrives whole.
    let mut spec = sh("printf %s \"$1\" | wc -c");
    spec.args
        .extend(["sh".into(), "x".repeat(MAX_ARGUMENT_BYTES - 1).into()]);
    let mut child = spawner.spawn(spec).await.unwrap();
    assert_eq!(common::line(child.stdout.as_mut().unwrap()).await, "131071");
    let said = [
        refusal(&spawner, |spec| {
            spec.args.push("x".repeat(MAX_ARGUMENT_BYTES).into())
        })
        .await,
        refusal(&spawner, |spec| {
            _ = spec.env.insert("LONG".into(), "x".repeat(200_000).into())
        })
        .await,
        refusal(&spawner, |spec| {
            spec.args.extend((0..100).map(|_| "x".repeat(100_000).into()))
        })
        .await,
    ];
    let limit = said[2]
        .split("; the limit is ")
        .nth(1)
        .unwrap()
        .split(' ')
        .next()
        .unwrap()
        .to_owned();
    insta::assert_snapshot!(said.join("\n").replace(&limit, "LIMIT"), @r"
    sh: argument 3 has 131072 bytes; the limit is 131071 bytes. Pass long input on standard input or in a file.
    sh: environment variable LONG has 200005 bytes; the limit is 131071 bytes. Pass long input on standard input or in a file.
    sh: arguments and environment have 10001014 bytes together; the limit is LIMIT bytes. Pass long input on standard input or in a file.
    ");
}

#[tokio::test]
async fn without_a_free_descriptor_the_command_is_refused_and_the_spawner_goes_on() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let spawner = spawner();
    let before = getrlimit(Resource::Nofile);
    let open = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(open + 1),
            ..before
        },
    )
    .unwrap();
    let said = refusal(&spawner, |_| ()).await;
    setrlimit(Resource::Nofile, before).unwrap();
    insta::assert_snapshot!(said, @"sh: the system has no room for another process: Too many open files (os error 24). End some runs, or raise the limit (ulimit -n, ulimit -u).");
    let pid = spawner.pid().await;
    let child = spawner.spawn(sh("exit 3")).await.unwrap();
    assert_eq!(
        (within(child.wait()).await.code, spawner.pid().await),
        (Some(3), pid)
    );
}
