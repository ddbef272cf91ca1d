/* SPDX-License-Identifier: Apache-2.0 */
/* The instructions of a Dockerfile.
 * I(NAME, least, most, traits, "form")
 *   least, most  operands; 0 = any number
 *   traits       EXPANDS  variables in its operands are replaced
 *                EXEC     its operands may be a list in JSON
 *                JSON     they must be one
 *                WHOLE    they are one text, blanks and all
 *                HERE     it may have here-documents
 *                PAIRS    they are NAME=VALUE
 *                DROPPED  accepted, and not passed to the builder: an import has no use for it
 *   form         for the message about a wrong one */
/* clang-format off */
I(FROM, 1, 3, EXPANDS, "FROM IMAGE [AS NAME]")
I(ARG, 1, 0, EXPANDS | PAIRS, "ARG NAME[=VALUE] ...")
I(RUN, 1, 0, EXEC | WHOLE | HERE, "RUN COMMAND")
I(COPY, 2, 0, EXPANDS | EXEC | HERE, "COPY SOURCE ... TARGET")
I(ADD, 2, 0, EXPANDS | EXEC | HERE, "ADD SOURCE ... TARGET")
I(ENV, 1, 0, EXPANDS | PAIRS, "ENV NAME=VALUE ...")
I(WORKDIR, 1, 1, EXPANDS | WHOLE, "WORKDIR FOLDER")
I(USER, 1, 1, EXPANDS | WHOLE, "USER NAME[:GROUP]")
I(SHELL, 1, 0, EXEC | JSON, "SHELL [\"PROGRAM\", \"ARGUMENT\"]")
I(CMD, 0, 0, EXEC | WHOLE, "CMD COMMAND")
I(ENTRYPOINT, 0, 0, EXEC | WHOLE, "ENTRYPOINT COMMAND")
I(LABEL, 1, 0, EXPANDS | PAIRS, "LABEL NAME=VALUE ...")
I(EXPOSE, 1, 0, EXPANDS, "EXPOSE PORT[/PROTOCOL] ...")
I(VOLUME, 1, 0, EXPANDS | EXEC, "VOLUME FOLDER ...")
I(STOPSIGNAL, 1, 1, EXPANDS | WHOLE, "STOPSIGNAL SIGNAL")
I(MAINTAINER, 1, 1, WHOLE, "MAINTAINER NAME")
I(HEALTHCHECK, 1, 0, WHOLE | DROPPED, "HEALTHCHECK CMD COMMAND, or HEALTHCHECK NONE")
I(ONBUILD, 1, 1, WHOLE | DROPPED, "ONBUILD INSTRUCTION")
