/*
 * A file system that is like those of networks where they differ from a local disk. It shows a directory, and
 *
 * - its files have other inode numbers at each mount (as with many FUSE file systems, or files that Lustre has moved),
 *   and with `renumber` in the root, while it is mounted. Their numbers are those of the directory, plus a salt;
 * - a file that is removed while it is open gets a hidden name (.fuse_hidden...), which the last close removes:
 *   libfuse does that.
 *
 * With `loses`, a file that is removed from the directory itself, as by another machine, while it is open, is stale
 * (ESTALE) until it is closed. With `caches`, what the kernel has once seen of names and files is not asked for again,
 * unless a file is opened or read beyond its end, as with NFS between an open and a close. With `no-links`, a file has
 * one name (EPERM), as on many file systems without UNIX's rights. With `no-locks`, files have neither flock(2) nor locks
 * of fcntl(2) (ENOSYS), as with Lustre without `flock`. The kernel still locks directories itself, for this machine alone.
 *
 * network_files DIRECTORY MOUNTPOINT SALT [loses|caches|no-links|no-locks]
 */
#define FUSE_USE_VERSION 31
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse3/fuse.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OPEN_FILES = 1024 };
static const double FOREVER = 3600;

static int root;
static ino_t salt;
static int loses, caches, no_links;
/* Names of the open files, by their numbers. */
static char *opened[OPEN_FILES];
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;

static const char *below(const char *path) { return path[1] ? path + 1 : "."; }
static int done(int result) { return result < 0 ? -errno : 0; }
static int number(struct fuse_file_info *file) { return (int)file->fh; }

/* Notes or forgets the name of an open file. */
static void note(int fd, const char *path)
{
    if (fd >= OPEN_FILES)
        return;
    pthread_mutex_lock(&guard);
    free(opened[fd]);
    opened[fd] = path ? strdup(path) : NULL;
    pthread_mutex_unlock(&guard);
}

static int is_open(const char *path)
{
    int found = 0;
    pthread_mutex_lock(&guard);
    for (int fd = 0; fd < OPEN_FILES; fd++)
        found |= opened[fd] && !strcmp(opened[fd], path);
    pthread_mutex_unlock(&guard);
    return found;
}

static void *start(struct fuse_conn_info *connection, struct fuse_config *config)
{
    (void)connection;
    config->use_ino = 1;
    config->entry_timeout = config->attr_timeout = config->negative_timeout = caches ? FOREVER : 0;
    return NULL;
}

static int look(const char *path, struct stat *facts, struct fuse_file_info *file)
{
    int result = file ? fstat(number(file), facts) : fstatat(root, below(path), facts, AT_SYMLINK_NOFOLLOW);
    facts->st_ino += salt;
    return result < 0 && errno == ENOENT && loses && is_open(path) ? -ESTALE : done(result);
}

static int list(const char *path, void *names, fuse_fill_dir_t fill, off_t offset, struct fuse_file_info *file,
                enum fuse_readdir_flags flags)
{
    (void)offset, (void)file, (void)flags;
    int fd = openat(root, below(path), O_RDONLY | O_DIRECTORY);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    if (!directory)
        return -errno;
    for (struct dirent *entry; (entry = readdir(directory));) {
        struct stat facts = {.st_ino = entry->d_ino + salt, .st_mode = (mode_t)entry->d_type << 12};
        if (fill(names, entry->d_name, &facts, 0, 0))
            break;
    }
    closedir(directory);
    return 0;
}

static int read_link(const char *path, char *target, size_t size)
{
    ssize_t length = readlinkat(root, below(path), target, size - 1);
    if (length < 0)
        return -errno;
    target[length] = 0;
    return 0;
}

static int make_directory(const char *path, mode_t mode) { return done(mkdirat(root, below(path), mode)); }
static int remove_name(const char *path) { return done(unlinkat(root, below(path), 0)); }
static int remove_directory(const char *path) { return done(unlinkat(root, below(path), AT_REMOVEDIR)); }
static int make_symlink(const char *target, const char *path) { return done(symlinkat(target, root, below(path))); }
/* Says on standard error what was refused, so that a test knows that it was asked for. */
static int refuse(const char *what, int error)
{
    fprintf(stderr, "refused a %s\n", what);
    return -error;
}

static int make_link(const char *from, const char *to)
{
    return no_links ? refuse("link", EPERM) : done(linkat(root, below(from), root, below(to), 0));
}

/* Renames a file, or hides one that is removed while it is open: libfuse asks for that. */
static int rename_one(const char *from, const char *to, unsigned flags)
{
    return done(renameat2(root, below(from), root, below(to), flags));
}

static int change_mode(const char *path, mode_t mode, struct fuse_file_info *file)
{
    return done(file ? fchmod(number(file), mode) : fchmodat(root, below(path), mode, 0));
}

static int change_owner(const char *path, uid_t user, gid_t group, struct fuse_file_info *file)
{
    return done(file ? fchown(number(file), user, group)
                     : fchownat(root, below(path), user, group, AT_SYMLINK_NOFOLLOW));
}

static int change_length(const char *path, off_t length, struct fuse_file_info *file)
{
    int fd = file ? number(file) : openat(root, below(path), O_WRONLY), result = fd < 0 ? -1 : ftruncate(fd, length);
    int error = done(result);
    if (!file && fd >= 0)
        close(fd);
    return error;
}

static int change_times(const char *path, const struct timespec times[2], struct fuse_file_info *file)
{
    return done(file ? futimens(number(file), times) : utimensat(root, below(path), times, AT_SYMLINK_NOFOLLOW));
}

static int open_it(const char *path, struct fuse_file_info *file, int flags, mode_t mode)
{
    /* The kernel sends the place of each write. It tells nobody that a file appends no more. */
    int fd = openat(root, below(path), flags & ~(O_NOFOLLOW | O_DIRECT | O_APPEND), mode);
    if (fd < 0)
        return -errno;
    file->fh = (uint64_t)fd;
    note(fd, path);
    return 0;
}

static int open_file(const char *path, struct fuse_file_info *file) { return open_it(path, file, file->flags, 0); }

static int make_file(const char *path, mode_t mode, struct fuse_file_info *file)
{
    if (!strcmp(path, "/renumber"))
        salt += 1000000;
    return open_it(path, file, file->flags | O_CREAT, mode);
}

static int read_file(const char *path, char *bytes, size_t size, off_t offset, struct fuse_file_info *file)
{
    (void)path;
    ssize_t length = pread(number(file), bytes, size, offset);
    return length < 0 ? -errno : (int)length;
}

static int write_file(const char *path, const char *bytes, size_t size, off_t offset, struct fuse_file_info *file)
{
    (void)path;
    /* The kernel gives the offset of an append itself. */
    ssize_t length = pwrite(number(file), bytes, size, offset);
    return length < 0 ? -errno : (int)length;
}

static int close_file(const char *path, struct fuse_file_info *file)
{
    (void)path;
    note(number(file), NULL);
    return done(close(number(file)));
}

static int sync_file(const char *path, int data, struct fuse_file_info *file)
{
    (void)path;
    return done(data ? fdatasync(number(file)) : fsync(number(file)));
}

/* Data and holes. */
static off_t seek(const char *path, off_t offset, int whence, struct fuse_file_info *file)
{
    (void)path;
    off_t found = lseek(number(file), offset, whence);
    return found < 0 ? -errno : found;
}

static int refuse_flock(const char *path, struct fuse_file_info *file, int operation)
{
    (void)path, (void)file, (void)operation;
    return refuse("lock", ENOSYS);
}

static int refuse_lock(const char *path, struct fuse_file_info *file, int command, struct flock *region)
{
    (void)path, (void)file, (void)command, (void)region;
    return refuse("lock", ENOSYS);
}

static int about(const char *path, struct statvfs *facts)
{
    (void)path;
    return done(fstatvfs(root, facts));
}

static struct fuse_operations operations = {
    .init = start,
    .getattr = look,
    .readdir = list,
    .readlink = read_link,
    .mkdir = make_directory,
    .unlink = remove_name,
    .rmdir = remove_directory,
    .symlink = make_symlink,
    .link = make_link,
    .rename = rename_one,
    .chmod = change_mode,
    .chown = change_owner,
    .truncate = change_length,
    .utimens = change_times,
    .open = open_file,
    .create = make_file,
    .read = read_file,
    .write = write_file,
    .release = close_file,
    .fsync = sync_file,
    .lseek = seek,
    .statfs = about,
};

int main(int argc, char **argv)
{
    if (argc < 4 || argc > 5 || (root = open(argv[1], O_RDONLY | O_DIRECTORY)) < 0) {
        fprintf(stderr, "usage: network_files DIRECTORY MOUNTPOINT SALT [loses|caches|no-links|no-locks]\n");
        return 2;
    }
    salt = strtoull(argv[3], NULL, 10);
    loses = argc == 5 && !strcmp(argv[4], "loses");
    caches = argc == 5 && !strcmp(argv[4], "caches");
    no_links = argc == 5 && !strcmp(argv[4], "no-links");
    if (argc == 5 && !strcmp(argv[4], "no-locks")) {
        /* Without these, the kernel has locks of its own. */
        operations.flock = refuse_flock;
        operations.lock = refuse_lock;
    }
    umask(0);
    char *words[] = {argv[0], "-f", "-o", "allow_other,default_permissions", argv[2], NULL};
    return fuse_main(5, words, &operations, NULL);
}
