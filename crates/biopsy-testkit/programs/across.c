// Sick: a process and its child that wait for each other, or for something the other one has. It says READY just before, and ends on
// SIGTERM. Argument 1 says how:
//   pipes      both write more than a pipe holds, and nobody reads
//   own-end    reads from a pipe whose only writing end is its own
//   unix, tcp  both wait for the other one to say something
//   flock, fcntl, ofd   the child waits for a lock on a file (argument 2) that the parent has
//   child      waits for the end of the child, which waits for data from the parent
//   unread     waits for the end of the child, which writes to a pipe that only the parent reads
//   sysv       the child waits for a semaphore that the parent took
//   shared     the child waits for a mutex in shared memory that the parent has
//   orphan     the child waits for a mutex that another thread of the parent had when it forked
//   asleep     waits for the end of the child, which sleeps: no deadlock
#include "target.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/wait.h>

static char much[300000];
static pthread_mutex_t private_mutex = PTHREAD_MUTEX_INITIALIZER;
static pid_t child;
static int semaphores = -1;

// What a child says when it stands where it stays, near enough: it is about to.
static pid_t start_child(void) {
    fflush(NULL);
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(1);
        signal(SIGTERM, SIG_DFL);
    }
    return pid;
}

static void *holds_private(void *unused) {
    pthread_mutex_lock(&private_mutex);
    sleep_ns(600L * 1000000000L);
    return unused;
}

// The order to end; nobody reads stdin, because a thread that did could help the others.
static void end_all(int signal) {
    (void)signal;
    if (semaphores >= 0) semctl(semaphores, 0, IPC_RMID);
    if (child > 0) kill(child, SIGKILL);
    _exit(0);
}

static int first[2], second[2];

static void parent_writes(void) { (void)!write(first[1], much, sizeof much); }
static void parent_reads_first(void) { (void)!read(first[0], much, 1); }
static void parent_waits(void) { waitpid(child, NULL, 0); }
static void parent_rests(void) { sleep_ns(600L * 1000000000L); }

static void take(int fd, const char *mode) {
    struct flock all = {.l_type = F_WRLCK};
    if (strcmp(mode, "flock") == 0) flock(fd, LOCK_EX);
    if (strcmp(mode, "fcntl") == 0) fcntl(fd, F_SETLKW, &all);
    if (strcmp(mode, "ofd") == 0) fcntl(fd, F_OFD_SETLKW, &all);
}

int main(int argc, char **argv) {
    limit_own_life();
    const char *mode = argc > 1 ? argv[1] : "";
    void (*work)(void) = parent_rests;
    if (pipe(first) || pipe(second)) return 2;
    if (strcmp(mode, "pipes") == 0) {
        child = start_child();
        if (child == 0) {
            close(first[1]);
            close(second[0]);
            (void)!write(second[1], much, sizeof much);
            _exit(0);
        }
        close(first[0]);
        close(second[1]);
        work = parent_writes;
    } else if (strcmp(mode, "own-end") == 0) {
        work = parent_reads_first;
    } else if (strcmp(mode, "unix") == 0 || strcmp(mode, "tcp") == 0) {
        int ends[2];
        if (strcmp(mode, "unix") == 0) {
            if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) return 2;
        } else {
            struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
            socklen_t size = sizeof here;
            int listener = socket(AF_INET, SOCK_STREAM, 0);
            if (bind(listener, (struct sockaddr *)&here, sizeof here) || listen(listener, 1)) return 2;
            getsockname(listener, (struct sockaddr *)&here, &size);
            ends[1] = socket(AF_INET, SOCK_STREAM, 0);
            if (connect(ends[1], (struct sockaddr *)&here, sizeof here)) return 2;
            ends[0] = accept(listener, NULL, NULL);
            close(listener);
        }
        child = start_child();
        if (child == 0) {
            close(ends[0]);
            (void)!recv(ends[1], much, 1, 0);
            _exit(0);
        }
        close(ends[1]);
        first[0] = ends[0];
        work = parent_reads_first;
    } else if (strcmp(mode, "flock") == 0 || strcmp(mode, "fcntl") == 0 || strcmp(mode, "ofd") == 0) {
        int own = open(argv[2], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        take(own, mode);
        child = start_child();
        if (child == 0) {
            close(own);
            take(open(argv[2], O_RDWR), mode);
            _exit(0);
        }
    } else if (strcmp(mode, "child") == 0) {
        child = start_child();
        if (child == 0) {
            close(first[1]);
            (void)!read(first[0], much, 1);
            _exit(0);
        }
        work = parent_waits;
    } else if (strcmp(mode, "unread") == 0) {
        child = start_child();
        if (child == 0) {
            close(first[0]);
            (void)!write(first[1], much, sizeof much);
            _exit(0);
        }
        close(first[1]);
        work = parent_waits;
    } else if (strcmp(mode, "sysv") == 0) {
        semaphores = semget(IPC_PRIVATE, 2, 0600);
        struct sembuf down = {.sem_num = 1, .sem_op = -1};
        semctl(semaphores, 1, SETVAL, 1);
        semop(semaphores, &down, 1);
        child = start_child();
        if (child == 0) {
            semop(semaphores, &down, 1);
            _exit(0);
        }
    } else if (strcmp(mode, "shared") == 0) {
        pthread_mutex_t *mutex = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        pthread_mutexattr_t attributes;
        pthread_mutexattr_init(&attributes);
        pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
        pthread_mutex_init(mutex, &attributes);
        pthread_mutex_lock(mutex);
        child = start_child();
        if (child == 0) {
            pthread_mutex_lock(mutex);
            _exit(0);
        }
    } else if (strcmp(mode, "orphan") == 0) {
        start_thread(holds_private, NULL);
        sleep_ns(100000000L);
        child = start_child();
        if (child == 0) {
            pthread_mutex_lock(&private_mutex);
            _exit(0);
        }
    } else {
        child = start_child();
        if (child == 0) {
            sleep_ns(600L * 1000000000L);
            _exit(0);
        }
        work = parent_waits;
    }
    signal(SIGTERM, end_all);
    signal(SIGALRM, end_all);
    printf("READY %d %d\n", (int)getpid(), (int)child);
    fflush(stdout);
    work();
    parent_rests();
    return 0;
}
