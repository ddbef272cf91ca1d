/* SPDX-License-Identifier: Apache-2.0 */
/* What went wrong while a sandbox was made, as a typed error. */
#include "engine/front/inside/inside.h"

static const char *const step_texts[PROTO_STEP_MAX_] = {
#define S(name, what) [PROTO_STEP_##name] = what,
#include "engine/protocol/steps.tbl.h"
#undef S
};

/* Whether a stored workspace is not, or not any more, a file with a sound file system. Steps after the mount
 * read its folders; a workspace in memory never fails with these errnos. */
static bool is_damage(uint32_t step, int errnum)
{
	const bool opens = step == PROTO_STEP_STORED;

	if (!opens && step != PROTO_STEP_WORKSPACE && step != PROTO_STEP_PACKAGES &&
	    step != PROTO_STEP_TMP && step != PROTO_STEP_HOME)
		return false;
	switch (errnum) {
	case EBADMSG: /* ext4: a wrong checksum */
	case EUCLEAN:
	case EIO:
	case EISDIR:
	case ELOOP:
		return true;
	case EINVAL:
	case EOPNOTSUPP:
		return opens;
	case ENOENT:
	case ENOTDIR:
	case EROFS: /* ext4 refuses to write after an error */
		return !opens;
	default:
		return false;
	}
}

/* Some errnos say more than "unavailable". */
static enum err_code step_code(uint32_t step, int errnum)
{
	if (is_damage(step, errnum))
		return ERR_WORKSPACE_DAMAGED;
	switch (errnum) {
	case ENOENT:
		return step == PROTO_STEP_IMAGE ? ERR_IMAGE_MISSING : ERR_ENGINE_UNAVAILABLE;
	case EMFILE:
	case ENFILE:
		return ERR_TOO_MANY_FILES;
	case ENOSPC:
	case EDQUOT:
		return step == PROTO_STEP_DISK || step == PROTO_STEP_STORED ? ERR_HOST_DISK_FULL
									    : ERR_STORE_FULL;
	case EROFS:
		return ERR_STORE_READ_ONLY;
	case EUSERS:
		return ERR_MAX_SESSIONS; /* ids of root users */
	case EBUSY:
		return step == PROTO_STEP_STORED ? ERR_SANDBOX_IN_USE : ERR_ENGINE_UNAVAILABLE;
	case ESRCH:
		return step == PROTO_STEP_HELPER ? ERR_SANDBOX_LOST : ERR_ENGINE_UNAVAILABLE;
	case ENOMEM:
		return ERR_OUT_OF_MEMORY;
	case EOPNOTSUPP:
		return step == PROTO_STEP_EGRESS ? ERR_LEVEL_UNAVAILABLE : ERR_ENGINE_UNAVAILABLE;
	default:
		return ERR_ENGINE_UNAVAILABLE;
	}
}

void inside_step_error(struct err *e, uint32_t step, int errnum)
{
	const char *what =
	    step < PROTO_STEP_MAX_ && step_texts[step] ? step_texts[step] : "an unknown step";
	enum err_code code = step_code(step, errnum);

	if (code == ERR_IMAGE_MISSING)
		(void)err_set(e, code, 0, "the image is not there");
	else if (code == ERR_SANDBOX_IN_USE)
		(void)err_set(e, code, 0, "another engine has the sandbox open");
	else if (code == ERR_WORKSPACE_DAMAGED)
		(void)err_set(e, code, errnum,
			      "the stored workspace is damaged and cannot be opened");
	else if (code == ERR_STORE_FULL || code == ERR_HOST_DISK_FULL)
		(void)err_set(e, code, errnum, "the disk of this machine is full");
	else if (code == ERR_LEVEL_UNAVAILABLE)
		(void)err_set(
		    e, code, 0,
		    "this level of isolation has a kernel of its own, which gives no network "
		    "to a sandbox, nor to the installation of packages; choose another "
		    "level, or no network");
	else if (step == PROTO_STEP_CONTAINER_INIT)
		(void)err_set(
		    e, code, 0,
		    "a sandbox cannot be made: init in the container does not connect to the "
		    "server. gVisor needs the option --host-uds=open of runsc for that");
	else if (code == ERR_MAX_SESSIONS)
		(void)err_set(e, code, 0,
			      "no more sandboxes can have a root user at a time; end one of them.");
	else if (step == PROTO_STEP_ROOT_USER && (errnum == EINVAL || errnum == ENOSYS))
		(void)err_set(
		    e, code, 0,
		    "no sandbox can have a root user here: the images cannot be mounted with other "
		    "owners. It takes Linux 5.19 and a file system that can, such as ext4, XFS or "
		    "Btrfs, for the state folder");
	else if (step == PROTO_STEP_STORED && errnum == ENOPKG)
		(void)err_set(e, code, 0, "a stored workspace needs mke2fs (package e2fsprogs)");
	else
		(void)err_set(e, code, errnum > 0 ? errnum : EIO, "a sandbox cannot be made (%s)",
			      what);
}
