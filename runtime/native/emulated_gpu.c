/* What `triton-xe emulate` preloads into programs: their GPU is the emulator's, on another process.
 *
 * - `open` of /dev/dri/renderD128 answers a file descriptor of the emulated GPU's memory, which
 *   Intel's driver maps as it maps memory of a GPU; nothing else is there in /dev/dri.
 * - `ioctl` of that file sends the request's number and the address of its structure to the
 *   emulator, which reads and writes this process's memory, and waits for the answer.
 * - programs that are started run under the dynamic loader of Intel's toolchain, if it has one:
 *   Intel's driver is made for a newer C library than most systems have.
 *
 * The emulator names its socket, that loader and its folder of libraries in the environment.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define SOCKET "TRITON_XE_EMULATED"
#define LOADER "XE_EMULATOR_LOADER"
#define LIBRARIES "XE_EMULATOR_LIBRARIES"
#define DEVICES "/dev/dri"
#define DEVICE DEVICES "/renderD128"
#define LOADER_NAME "/ld-linux-x86-64.so.2"
#define FAULT 70 /* exit code when the emulator refuses to go on */

const char xe_source[] = XE_SOURCE; /* which text this was compiled from */

typedef struct {
    uint64_t request, argument, inode;
} Request; /* to open a device, all are 0 */
typedef struct {
    int32_t error; /* errno; -1: the text says why this process ends */
    char text[4092];
} Answer;

extern char **environ;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* ---- the device -------------------------------------------------------------------------- */

static pthread_key_t channels; /* a connection for each thread, so that none waits for another */
static __thread int channel = -1;
static __thread pid_t channel_owner;

static void close_channel(void *opened) { close((int)(intptr_t)opened - 1); }

__attribute__((constructor)) static void start(void) { pthread_key_create(&channels, close_channel); }

static int connected(void) {
    struct sockaddr_un where = {.sun_family = AF_UNIX};
    const char *path = getenv(SOCKET);
    if (!path || strlen(path) >= sizeof where.sun_path) return -1;
    strcpy(where.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&where, sizeof where) == 0) return fd;
    if (fd >= 0) close(fd);
    return -1;
}

/* End this process with the emulator's sentence, if the answer is one. */
static void check(const Answer *answer, ssize_t size) {
    if (size < (ssize_t)sizeof answer->error || answer->error >= 0) return;
    if (write(2, answer->text, size - sizeof answer->error) < 0) _exit(FAULT + 1);
    _exit(FAULT);
}

static int open_device(void) {
    Request request = {0};
    Answer answer;
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {&answer, sizeof answer};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    int fd = connected(), memory = -1; /* stays open: its end is the end of this process */
    if (fd >= 0 && send(fd, &request, sizeof request, MSG_NOSIGNAL) == sizeof request) {
        ssize_t size = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
        check(&answer, size);
        if (size > 0 && CMSG_FIRSTHDR(&message))
            memcpy(&memory, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof memory);
    }
    if (memory < 0) errno = ENODEV;
    return memory;
}

static int is_device_path(const char *path) {
    size_t length = strlen(DEVICES);
    return path && !strncmp(path, DEVICES, length) && (path[length] == '/' || !path[length]) &&
           getenv(SOCKET);
}

static int opened(const char *path) {
    if (!strcmp(path, DEVICE)) return open_device();
    errno = ENOENT;
    return -1;
}

#define OPEN(name)                                                                     \
    int name(const char *path, int flags, ...) {                                       \
        va_list rest;                                                                  \
        va_start(rest, flags);                                                         \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;        \
        va_end(rest);                                                                  \
        return is_device_path(path) ? opened(path) : REAL(name)(path, flags, mode);    \
    }
OPEN(open)
OPEN(open64)

DIR *opendir(const char *path) {
    if (!is_device_path(path)) return REAL(opendir)(path);
    errno = ENOENT; /* the driver then tries one name after another */
    return NULL;
}

static int answered(Request request) {
    Answer answer;
    if (channel < 0 || channel_owner != getpid()) {
        channel = connected();
        channel_owner = getpid();
        pthread_setspecific(channels, (void *)(intptr_t)(channel + 1));
    }
    if (send(channel, &request, sizeof request, MSG_NOSIGNAL) != sizeof request) return ENODEV;
    ssize_t size;
    while ((size = recv(channel, &answer, sizeof answer, 0)) < 0 && errno == EINTR) continue;
    if (size < (ssize_t)sizeof answer.error) return ENODEV;
    check(&answer, size);
    return answer.error;
}

int ioctl(int fd, unsigned long request, ...) {
    va_list rest;
    va_start(rest, request);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    struct stat file;
    if ((request >> 8 & 0xff) != 'd' || !getenv(SOCKET) || fstat(fd, &file) || !S_ISREG(file.st_mode))
        return REAL(ioctl)(fd, request, argument);
    int error = answered((Request){request, (uintptr_t)argument, file.st_ino});
    if (!error) return 0;
    errno = error;
    return -1;
}

/* ---- programs that are started ------------------------------------------------------------ */

#define EXTRA 8 /* words before a program's own arguments */

/* Texts that words of a new command line are in. */
typedef struct {
    char line[PATH_MAX], folders[2 * PATH_MAX];
} Texts;

static const char *value(char *const environment[], const char *name) {
    size_t length = strlen(name);
    for (; environment && *environment; environment++)
        if (!strncmp(*environment, name, length) && (*environment)[length] == '=')
            return *environment + length + 1;
    return NULL;
}

/* The first bytes of a file, with a zero after them; 0 if it cannot be read. */
static size_t head(const char *path, char *text, size_t size) {
    int fd = REAL(open)(path, O_RDONLY | O_CLOEXEC);
    ssize_t count = fd < 0 ? 0 : read(fd, text, size - 1);
    if (fd >= 0) close(fd);
    text[count > 0 ? count : 0] = 0;
    return count > 0 ? count : 0;
}

static int is_dynamic(const char *path) {
    char text[4096];
    size_t size = head(path, text, sizeof text);
    Elf64_Ehdr *elf = (Elf64_Ehdr *)text;
    if (size < sizeof *elf || memcmp(text, ELFMAG "\2", 5) || elf->e_machine != EM_X86_64) return 0;
    for (int i = 0; i < elf->e_phnum; i++) {
        size_t at = elf->e_phoff + i * sizeof(Elf64_Phdr);
        if (at + sizeof(Elf64_Phdr) > size) return 0;
        Elf64_Phdr *part = (Elf64_Phdr *)(text + at);
        if (part->p_type == PT_INTERP && part->p_offset + part->p_filesz <= size)
            return strstr(text + part->p_offset, LOADER_NAME) != NULL;
    }
    return 0;
}

/* The words after `#!`, of which there are at most two. */
static int interpreter(const char *path, char *text, size_t size, char *words[2]) {
    words[0] = words[1] = NULL;
    if (!head(path, text, size) || strncmp(text, "#!", 2)) return 0;
    text[strcspn(text, "\n")] = 0;
    char *rest = text + 2 + strspn(text + 2, " \t");
    words[0] = rest;
    rest += strcspn(rest, " \t");
    if (*rest) {
        *rest++ = 0;
        rest += strspn(rest, " \t");
        words[1] = *rest ? rest : NULL;
    }
    return 1;
}

/* The words that run a program under the toolchain's loader; 0 if it runs as it is. */
static int rewritten(const char *path, char *const argv[], char *const environment[], char **out,
                     Texts *texts) {
    char *words[2], *loader = (char *)value(environment, LOADER);
    const char *own = value(environment, "LD_LIBRARY_PATH");
    if (!value(environment, SOCKET) || !loader) return 0;
    snprintf(texts->folders, sizeof texts->folders, "%s%s%s", value(environment, LIBRARIES),
             own ? ":" : "", own ? own : "");
    int is_script = interpreter(path, texts->line, sizeof texts->line, words);
    char *program = is_script ? words[0] : (char *)path;
    if (!is_dynamic(program)) return 0;
    *out++ = loader;
    *out++ = "--library-path";
    *out++ = texts->folders;
    *out++ = "--argv0";
    *out++ = is_script || !argv[0] ? program : argv[0];
    *out++ = program;
    if (is_script && words[1]) *out++ = words[1];
    if (is_script) *out++ = (char *)path;
    if (argv[0])
        while (*++argv) *out++ = *argv;
    *out = NULL;
    return 1;
}

static size_t count(char *const argv[]) {
    size_t found = 0;
    while (argv[found]) found++;
    return found;
}

/* The file that a name without a slash means; the name itself if there is none. */
static const char *searched(const char *name, char *found) {
    const char *rest = getenv("PATH");
    for (rest = rest ? rest : "/bin:/usr/bin"; !strchr(name, '/') && *rest; rest += *rest == ':') {
        size_t length = strcspn(rest, ":");
        struct stat file;
        if (length + strlen(name) + 2 > PATH_MAX) break;
        memcpy(found, rest, length);
        found[length] = '/';
        strcpy(found + length + (length > 0), name);
        rest += length;
        if (!access(found, X_OK) && !stat(found, &file) && S_ISREG(file.st_mode)) return found;
    }
    return name;
}

int execve(const char *path, char *const argv[], char *const environment[]) {
    char *out[count(argv) + EXTRA];
    Texts texts;
    if (rewritten(path, argv, environment, out, &texts))
        return REAL(execve)(out[0], out, environment);
    return REAL(execve)(path, argv, environment);
}

int execv(const char *path, char *const argv[]) { return execve(path, argv, environ); }

int execvpe(const char *name, char *const argv[], char *const environment[]) {
    char found[PATH_MAX];
    return execve(searched(name, found), argv, environment);
}

int execvp(const char *name, char *const argv[]) { return execvpe(name, argv, environ); }

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes, char *const argv[], char *const environment[]) {
    char *out[count(argv) + EXTRA];
    Texts texts;
    if (rewritten(path, argv, environment, out, &texts))
        return REAL(posix_spawn)(pid, out[0], actions, attributes, out, environment);
    return REAL(posix_spawn)(pid, path, actions, attributes, argv, environment);
}

int posix_spawnp(pid_t *pid, const char *name, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const argv[], char *const environment[]) {
    char found[PATH_MAX];
    return posix_spawn(pid, searched(name, found), actions, attributes, argv, environment);
}
