//! Examinations that find much, fail, or never end, under paused time.

use std::fmt;
use std::sync::Mutex as StdMutex;
use std::sync::atomic::AtomicU32;

use lockkeeper_core::clock::TestClock;
use lockkeeper_core::{
    AdminBackend, Advice, Backend, Capabilities, ContenderInfo, Error, ErrorKind, Exclusion, Operation, QueueName,
    Requirement, Session, StoppedHolder,
};

use super::*;
use crate::Keeper;
use crate::event::Observer;
use crate::keeper::memory::{MemoryService, Testing};
use crate::tests::{at_once, settle};

/// What an examination does.
#[derive(Clone)]
enum Course {
    Finds(Vec<Finding>),
    Fails,
    NeverEnds,
}

/// A memory service that is examined as a test says.
struct Examined {
    memory: Arc<dyn Backend>,
    /// What each examination does in turn; the last one goes on for all later ones.
    courses: StdMutex<Vec<Course>>,
    examinations: AtomicU32,
}

impl Backend for Examined {
    fn service(&self) -> String {
        "examined:".to_owned()
    }

    fn capabilities(&self) -> &Capabilities {
        self.memory.capabilities()
    }

    fn session(&self) -> BoxFuture<Result<Arc<dyn Session>>> {
        self.memory.session()
    }

    fn admin(&self) -> &dyn AdminBackend {
        self
    }
}

impl AdminBackend for Examined {
    fn inspect(&self, queue: &QueueName) -> BoxFuture<Result<Vec<ContenderInfo>>> {
        self.memory.admin().inspect(queue)
    }

    fn queues(&self, prefix: &str) -> BoxFuture<Result<Vec<QueueName>>> {
        self.memory.admin().queues(prefix)
    }

    fn examine(&self, scrutiny: Scrutiny) -> BoxFuture<Result<Vec<Finding>>> {
        assert_eq!(scrutiny, Scrutiny::Brief);
        self.examinations.fetch_add(1, Ordering::SeqCst);
        let mut courses = self.courses.lock().unwrap();
        let course = if courses.len() > 1 { courses.remove(0) } else { courses[0].clone() };
        Box::pin(async move {
            match course {
                Course::Finds(findings) => Ok(findings),
                Course::Fails => {
                    Err(Error::transient(ErrorKind::ConnectionLost, Operation::Inspect, "there is no answer"))
                }
                Course::NeverEnds => std::future::pending().await,
            }
        })
    }
}

impl fmt::Debug for Examined {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Examined")
    }
}

/// Keeps what an observer is told of the service.
#[derive(Debug, Default)]
struct Told(StdMutex<Vec<String>>);

impl Observer for Told {
    fn on_event(&self, event: &Event) {
        if let Event::Weakened { service, finding } = event {
            self.0.lock().unwrap().push(format!("{service} {finding}"));
        }
    }
}

struct Scene {
    backend: Arc<Examined>,
    testing: Testing,
    told: Arc<Told>,
    keeper: Keeper,
}

impl Scene {
    fn new(courses: &[Course]) -> Self {
        Self::requiring(courses, &[])
    }

    fn requiring(courses: &[Course], required: &[Requirement]) -> Self {
        let clock = Arc::new(TestClock::new());
        let (memory, testing) = MemoryService::new(clock.clone()).client();
        let (courses, examinations) = (StdMutex::new(courses.to_vec()), AtomicU32::new(0));
        let backend = Arc::new(Examined { memory, courses, examinations });
        let told = Arc::new(Told::default());
        let builder = Keeper::builder(backend.clone()).clock(clock).observer(told.clone());
        let keeper = required.iter().fold(builder, |builder, &one| builder.require(one)).build();
        Self { backend, testing, told, keeper }
    }

    async fn lock_once(&self) {
        let guard = at_once("the grant", self.keeper.mutex("door").unwrap().lock()).await.unwrap();
        guard.release().await.unwrap();
    }

    fn told(&self) -> Vec<String> {
        self.told.0.lock().unwrap().clone()
    }

    fn examinations(&self) -> u32 {
        self.backend.examinations.load(Ordering::SeqCst)
    }
}

fn warning(what: &str) -> Finding {
    Finding::new(Severity::Warning, what, "mend it")
}

#[tokio::test(start_paused = true)]
async fn the_worst_that_is_found_at_the_first_session_is_told_once() {
    let scene = Scene::new(&[Course::Finds(vec![Finding::note("small"), warning("slow"), warning("late")])]);
    for _ in 0..2 {
        scene.lock_once().await;
        settle().await;
        scene.testing.expire_session();
        settle().await;
    }
    assert_eq!((scene.told(), scene.examinations()), (vec!["examined: warning: slow: mend it".to_owned()], 1));
}

#[tokio::test(start_paused = true)]
async fn an_examination_without_an_end_delays_no_grant_and_is_given_up() {
    let scene = Scene::new(&[Course::NeverEnds, Course::Finds(vec![warning("slow")])]);
    scene.lock_once().await;
    assert!(scene.keeper.shared.is_examined.load(Ordering::Relaxed), "it is under way");
    settle().await;
    scene.lock_once().await;
    assert_eq!((scene.told().len(), scene.examinations()), (0, 1), "it is the same session");
    scene.testing.expire_session();
    scene.lock_once().await;
    settle().await;
    assert_eq!((scene.told().len(), scene.examinations()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn an_examination_that_fails_or_whose_session_ends_is_made_again_at_the_next_session() {
    let scene = Scene::new(&[Course::Fails, Course::NeverEnds, Course::Finds(vec![warning("slow")])]);
    for examinations in 1..=3 {
        assert_eq!(scene.told().len(), 0);
        scene.lock_once().await;
        // Less than the longest examination takes.
        tokio::time::sleep(EXAMINED_WITHIN / 2).await;
        assert_eq!(scene.examinations(), examinations);
        scene.testing.expire_session();
        tokio::task::yield_now().await;
    }
    assert_eq!(scene.told().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_examination_ends_with_its_keeper() {
    let scene = Scene::new(&[Course::NeverEnds]);
    scene.lock_once().await;
    let weak = Arc::downgrade(&scene.keeper.shared);
    drop(scene.keeper);
    assert!(weak.upgrade().is_none(), "the examination does not keep it alive");
}

#[test]
fn of_what_is_as_bad_the_first_is_told_unless_another_takes_from_the_exclusion() {
    let told = |findings: Vec<Finding>| worth_telling(findings).map(|finding| finding.what);
    let error = Finding::new(Severity::Error, "full", "make room");
    let fault = warning("faulty").leaving(Exclusion::BestEffort);
    assert_eq!(told(vec![]), None);
    assert_eq!(told(vec![Finding::note("small")]), None);
    assert_eq!(told(vec![warning("slow"), warning("late")]).as_deref(), Some("slow"));
    assert_eq!(told(vec![warning("slow"), fault.clone()]).as_deref(), Some("faulty"));
    assert_eq!(told(vec![fault, error]).as_deref(), Some("full"));
}

#[tokio::test(start_paused = true)]
async fn a_service_of_a_kind_that_promises_too_little_is_refused_unasked() {
    let scene = Scene::requiring(&[Course::NeverEnds], &[StoppedHolder::Keeps.into(), Exclusion::Timed.into()]);
    let error = at_once("the refusal", scene.keeper.mutex("door").unwrap().lock()).await.unwrap_err();
    assert_eq!((error.kind(), error.advice()), (ErrorKind::Unsupported, Advice::Permanent));
    let told = error.to_string();
    let words = ["examined:", "within one process", "on all machines", "another service"];
    assert!(words.iter().all(|word| told.contains(word)) && !told.contains('\n'), "{told}");
    assert!(scene.examinations() == 0 && scene.keeper.shared.opener.present().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_found_to_promise_too_little_is_refused_at_each_session_until_it_is_mended() {
    let fault = Course::Finds(vec![warning("slow"), warning("faulty").leaving(Exclusion::BestEffort)]);
    let fine = Course::Finds(vec![]);
    // A session that is opened is examined once more, for observers: at the first only.
    let courses = [fault.clone(), fine.clone(), fine, fault];
    let scene = Scene::requiring(&courses, &[Exclusion::Process.into()]);
    let refused = async || {
        let error = at_once("the refusal", scene.keeper.mutex("door").unwrap().lock()).await.unwrap_err();
        assert_eq!((error.kind(), error.advice()), (ErrorKind::Unsupported, Advice::Permanent));
        assert!(error.to_string().ends_with("faulty: mend it"), "{error}");
    };
    refused().await;
    scene.lock_once().await;
    scene.testing.expire_session();
    settle().await;
    refused().await;
    assert_eq!(scene.examinations(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_cannot_be_examined_in_time_is_asked_again() {
    let scene = Scene::requiring(&[Course::NeverEnds, Course::Finds(vec![])], &[Exclusion::Process.into()]);
    let began = tokio::time::Instant::now();
    let guard = scene.keeper.mutex("door").unwrap().lock().await.unwrap();
    assert!(began.elapsed() >= EXAMINED_WITHIN && guard.hold().is_held());
}
