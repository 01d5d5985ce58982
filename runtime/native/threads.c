/* Host threads that run the work-groups of a simulated launch beside the thread that launches, and
   the handler that makes a wild access of a kernel an error, not the end of the process.

   After a launch a thread spins for `SPIN_NS`, since kernels often follow each other, and then
   sleeps: waking up can take longer than a small launch.  Who launches runs work-groups too; a
   thread that did not wake up in time is not waited for.

   A thread's state goes from IDLE to POSTED (by the launch), then either to RUNNING (by the thread)
   and back, or back to IDLE at once (by a launch that found nothing left to do). */

#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096
#define SPIN_NS 300000

static inline void pause_cpu(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Memory of one thread for shared local memory and tiles, of which each launch zeroes a part. */
struct memory { char *start; size_t size; };
struct need { size_t size, zero_from, zero_size; };

/* What launches of a kernel share; as Python's `Job` lays it out. */
struct work {
    void (*run)(void *kernel, void *launch, void *memory);
    void *kernel;
    struct need need;
    int64_t error; /* where a launch has its error record */
    int64_t fault; /* a wild access sets the record to this if it is 0, and its third word to where */
};

struct job { struct work of; void *launch; };

struct worker {
    _Alignas(64) atomic_int state;
    atomic_int sleepers;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t thread;
    const struct job *job;
    struct memory memory;
    struct worker *next;
};
enum { IDLE, POSTED, RUNNING, QUIT };

/* One launch at a time has the workers. */
struct pool { pthread_mutex_t busy; struct worker *workers; };

struct guard { sigjmp_buf back; void *volatile address; };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t guards, memories; /* of each thread: its guard, and its memory as a launcher */
static struct sigaction before[2];
int (*xe_create_thread)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
    pthread_create;

/* ---- Wild accesses ---- */

static const char afterwards[] =
    "triton-xe: this process crashes outside of kernels, after kernels ran on the simulator: one may "
    "have written outside of its arrays. TRITON_XE_SANITIZE=1 finds such an access.\n";

/* A fault outside of kernels happens again, to whoever handled it before. */
static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)context;
    struct guard *guard = pthread_getspecific(guards);
    if (guard) {
        guard->address = info->si_addr;
        siglongjmp(guard->back, 1);
    }
    ssize_t written = write(STDERR_FILENO, afterwards, sizeof afterwards - 1);
    (void)written;
    sigaction(number, &before[number == SIGBUS], NULL);
}

static void free_memory(void *memory)
{
    free(((struct memory *)memory)->start);
    free(memory);
}

static void start(void)
{
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    action.sa_sigaction = on_fault;
    pthread_key_create(&guards, NULL);
    pthread_key_create(&memories, free_memory);
    sigaction(SIGSEGV, &action, &before[0]);
    sigaction(SIGBUS, &action, &before[1]);
}

/* Run work-groups on this thread until none are left. */
static void enter(const struct job *job, char *memory)
{
    struct guard guard, *outer = pthread_getspecific(guards);
    memset(memory + job->of.need.zero_from, 0, job->of.need.zero_size);
    pthread_setspecific(guards, &guard);
    if (sigsetjmp(guard.back, 0) == 0) {
        job->of.run(job->of.kernel, job->launch, memory);
    } else {
        int64_t none = 0;
        _Atomic int64_t *error = (_Atomic int64_t *)((char *)job->launch + job->of.error);
        if (atomic_compare_exchange_strong(&error[0], &none, job->of.fault))
            error[2] = (int64_t)(intptr_t)guard.address;
    }
    pthread_setspecific(guards, outer);
}

/* ---- Threads ---- */

static int allot(struct memory *memory, size_t size)
{
    if (memory->start && memory->size >= size)
        return 0;
    free(memory->start);
    memory->start = NULL;
    memory->size = size;
    return posix_memalign((void **)&memory->start, PAGE, size ? size : 1) ? ENOMEM : 0;
}

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static bool is_ready(struct worker *w, bool idle)
{
    return (atomic_load(&w->state) == IDLE) == idle;
}

static bool spin(struct worker *w, bool idle)
{
    for (int64_t end = now() + SPIN_NS; now() < end;)
        for (int n = 0; n < 16; n++, pause_cpu())
            if (is_ready(w, idle))
                return true;
    return false;
}

/* Wait until a worker is idle (who launches), or is not (the worker itself). */
static void await(struct worker *w, bool idle)
{
    if (spin(w, idle))
        return;
    pthread_mutex_lock(&w->mutex);
    atomic_fetch_add(&w->sleepers, 1);
    while (!is_ready(w, idle))
        pthread_cond_wait(&w->changed, &w->mutex);
    atomic_fetch_sub(&w->sleepers, 1);
    pthread_mutex_unlock(&w->mutex);
}

static void set(struct worker *w, int state)
{
    atomic_store(&w->state, state);
    if (!atomic_load(&w->sleepers))
        return;
    pthread_mutex_lock(&w->mutex);
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->mutex);
}

static void *work(void *argument)
{
    struct worker *w = argument;
    for (;;) {
        int posted = POSTED;
        await(w, false);
        if (atomic_load(&w->state) == QUIT)
            return NULL;
        if (atomic_compare_exchange_strong(&w->state, &posted, RUNNING)) {
            enter(w->job, w->memory.start);
            set(w, IDLE);
        }
    }
}

/* Start workers until there are `count`, and give each its memory. */
static int hire(struct pool *pool, int count, size_t size)
{
    struct worker **at = &pool->workers;
    for (int failed; count--; at = &(*at)->next) {
        if (!*at) {
            struct worker *w = NULL;
            if (posix_memalign((void **)&w, 64, sizeof *w))
                return ENOMEM;
            memset(w, 0, sizeof *w);
            pthread_mutex_init(&w->mutex, NULL);
            pthread_cond_init(&w->changed, NULL);
            if ((failed = xe_create_thread(&w->thread, NULL, work, w))) {
                free(w);
                return failed;
            }
            *at = w;
        }
        if ((failed = allot(&(*at)->memory, size)))
            return failed;
    }
    return 0;
}

static void run_together(struct pool *pool, int count, const struct job *job, char *memory)
{
    struct worker *w = pool->workers;
    for (int n = 0; n < count; n++, w = w->next) {
        w->job = job;
        set(w, POSTED);
    }
    enter(job, memory);
    w = pool->workers;
    for (int n = 0; n < count; n++, w = w->next) {
        int posted = POSTED;
        if (!atomic_compare_exchange_strong(&w->state, &posted, IDLE))
            await(w, true);
    }
}

/* ---- What Python calls ---- */

struct pool *xe_pool_new(void)
{
    struct pool *pool = calloc(1, sizeof *pool);
    pthread_once(&once, start);
    if (pool)
        pthread_mutex_init(&pool->busy, NULL);
    return pool;
}

/* Call work->run(kernel, launch, memory) on up to `threads` threads, this one included; the answer is 0
   or an `errno`.  A launch that finds the others at work for another one runs on its own thread
   alone. */
int xe_pool_run(struct pool *pool, int threads, const struct work *work, void *launch)
{
    struct job job = {*work, launch};
    struct memory *own = pthread_getspecific(memories);
    int failed = 0;
    if (!own) {
        own = calloc(1, sizeof *own);
        pthread_setspecific(memories, own);
    }
    if (!own || allot(own, job.of.need.size))
        return ENOMEM;
    if (threads < 2 || pthread_mutex_trylock(&pool->busy)) {
        enter(&job, own->start);
        return 0;
    }
    if (!(failed = hire(pool, threads - 1, job.of.need.size)))
        run_together(pool, threads - 1, &job, own->start);
    pthread_mutex_unlock(&pool->busy);
    return failed;
}

/* End all threads, and wait until they have ended; the next job starts new ones. */
void xe_pool_end(struct pool *pool)
{
    pthread_mutex_lock(&pool->busy);
    while (pool->workers) {
        struct worker *w = pool->workers;
        set(w, QUIT);
        pthread_join(w->thread, NULL);
        pool->workers = w->next;
        free(w->memory.start);
        free(w);
    }
    pthread_mutex_unlock(&pool->busy);
}

const char xe_source[] = XE_SOURCE;

/* How long a thread without work spins, in nanoseconds. */
int64_t xe_spin(void)
{
    struct worker w = {.state = IDLE};
    int64_t begin = now();
    spin(&w, false);
    return now() - begin;
}
