//! What is found out about asynchronous operations.

use biopsy_model::Avma;

/// Equal chains of operations that await each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OperationGroup {
    /// How many there are.
    pub count: u64,
    /// Methods, the innermost first: `App.Feed.GetAsync`. Each awaits the one before it.
    pub methods: Vec<String>,
    /// What the innermost awaits, in words: `System.Threading.Tasks.Task.DelayPromise`.
    pub awaits: String,
    /// The one object that all of them wait for in the end, where it is one: its address and type.
    pub object: Option<(Avma, String)>,
}

impl OperationGroup {
    /// A method of the chain is not the framework's.
    #[must_use]
    pub fn has_own_code(&self) -> bool {
        let framework = |name: &str| name.starts_with("System.") || name.starts_with("Microsoft.");
        self.methods.iter().any(|method| !framework(method))
    }
}

/// Asynchronous work of a process at one moment.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Operations {
    /// Equal chains, those with methods of the program first, of these the most frequent first.
    pub groups: Vec<OperationGroup>,
    /// Operations that await each other in a circle: their methods, each awaits the next, the last the first.
    pub rings: Vec<Vec<String>>,
    /// State machines that stand at an `await`.
    pub pending: u64,
    /// State machines that run, or have not begun.
    pub running: u64,
    /// State machines that have ended and are still in memory.
    pub completed: u64,
    /// Work items that wait for a worker of the thread pool, where its queues are understood.
    pub queued: Option<u64>,
    /// Timers that are active.
    pub timers: u64,
    /// Requests that Kestrel has handed to the application and that are not answered yet; `None`: it is not loaded.
    pub requests: Option<u64>,
    /// What could not be read, in words.
    pub problems: Vec<String>,
}

/// What `Task.Delay` is awaited as.
pub const DELAY: &str = "a delay";

/// What a writer of a bounded channel that is full awaits, in the words of [`OperationGroup::awaits`].
pub const FULL_CHANNEL: &str = "room in a full channel";
